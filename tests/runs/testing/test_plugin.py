"""Whoever installs Outlive has the fixture, and nobody who does not use our settings is disturbed."""

import subprocess
import sys
import tomllib
from pathlib import Path

from tests.stack import ROOT

TEST = "def test_it(pytestconfig):\n    assert pytestconfig.pluginmanager.has_plugin('runs.testing.plugin')\n"


def test_the_plugin_is_an_entry_point_under_the_name_of_its_module() -> None:
    """Under another name pytest would refuse to load it twice, where a checkout names it with -p."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert project["entry-points"]["pytest11"] == {"runs.testing.plugin": "runs.testing.plugin"}


def test_without_our_settings_it_stays_out_of_the_way(tmp_path: Path) -> None:
    (tmp_path / "test_it.py").write_text(TEST)
    command = [sys.executable, "-m", "pytest", "-q", "-p", "runs.testing.plugin", "-p", "no:playwright", "test_it.py"]
    ran = subprocess.run(
        command, cwd=tmp_path, env={"PATH": "/usr/bin:/bin"}, text=True, capture_output=True, timeout=200, check=False
    )
    assert ran.returncode == 0, ran.stdout + ran.stderr
