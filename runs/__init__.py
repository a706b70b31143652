"""The domain: runs, attempts, steps, the operation ledger, events, and everything that may change them."""
