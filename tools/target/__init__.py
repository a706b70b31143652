"""The demo target: an outside system with invoices and mail whose answers can be lost on purpose."""
