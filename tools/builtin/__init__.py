"""The tools that every installation has. Importing this package registers them."""

from tools.builtin.command import run_command
from tools.builtin.fetch import fetch_url
from tools.builtin.files import read_file, write_file
from tools.builtin.invoice import create_invoice
from tools.builtin.mail import send_mail

__all__ = ["create_invoice", "fetch_url", "read_file", "run_command", "send_mail", "write_file"]
