"""Terminals: PTYs that outlive whoever looks at them, and whoever started them."""
