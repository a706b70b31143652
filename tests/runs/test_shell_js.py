"""The modules of a shell's page in Node: offsets both ways, whose input goes in, and what is not answered."""

import os
import subprocess

import pytest

from config.stack.errors import StackError
from config.stack.node import node_program
from config.stack.state import CHECKOUT


def test_the_modules_of_a_shells_page() -> None:
    try:
        node = node_program(CHECKOUT / ".venv", os.environ)
    except StackError as missing:
        pytest.skip(str(missing))
    argv = [node, "--test", "--test-reporter=tap", "tests/runs/shell_in_node.mjs"]
    done = subprocess.run(argv, cwd=CHECKOUT, capture_output=True, text=True, timeout=100, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "# pass 24" in done.stdout, done.stdout
