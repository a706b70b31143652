"""Rules about the source itself that no single test can see: who writes status, and how long a module may be."""

import ast
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
PACKAGES = ("config", "runs", "streaming", "tools")
SOURCES = sorted(
    path for package in PACKAGES for path in (ROOT / package).rglob("*.py") if "migrations" not in path.parts
)
GUARDED_TABLES = ("runs_run", "runs_attempt", "runs_step", "runs_operation", "runs_question")
WRITES = re.compile(rf"\b(update|insert\s+into|delete\s+from)\s+({'|'.join(GUARDED_TABLES)})\b", re.IGNORECASE)
GUARDED_MODELS = {"Run", "Attempt", "Step", "Operation", "Question"}
ORM_WRITES = {"update", "create", "bulk_create", "bulk_update", "get_or_create", "update_or_create", "delete", "save"}


def outside_decisions() -> list[Path]:
    return [p for p in SOURCES if not p.is_relative_to(ROOT / "runs" / "decisions")]


def root_name(node: ast.expr) -> str | None:
    while isinstance(node, ast.Attribute | ast.Call | ast.Subscript):
        node = node.func if isinstance(node, ast.Call) else node.value
    return node.id if isinstance(node, ast.Name) else None


def guarded_writes(source: str) -> list[str]:
    """Return each place in a module that writes a guarded table, by SQL or through the ORM."""
    found = []
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and WRITES.search(node.value):
            found.append(f"line {node.lineno}: SQL")
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in ORM_WRITES:
            if root_name(node.func) in GUARDED_MODELS:
                found.append(f"line {node.lineno}: {node.func.attr}")
        if isinstance(node, ast.Assign | ast.AugAssign):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            found += [
                f"line {node.lineno}: assignment"
                for t in targets
                if isinstance(t, ast.Attribute) and t.attr == "status" and root_name(t) in {"run", "attempt"}
            ]
    return found


def test_the_detector_sees_each_way_to_write():
    assert guarded_writes('q = "update runs_run set status = 1"')
    assert guarded_writes("Run.objects.filter(pk=1).update(status='x')")
    assert guarded_writes("run.status = 'x'")
    assert not guarded_writes("Document.objects.create(name='x'); x = 'select * from runs_run'")


@pytest.mark.parametrize("path", outside_decisions(), ids=lambda p: str(p.relative_to(ROOT)))
def test_only_decisions_write_runs_and_their_ledger(path):
    assert guarded_writes(path.read_text()) == []


WALL_CLOCK = re.compile(r"\b(datetime\.now|datetime\.utcnow|timezone\.now|time\.time)\(")
DATABASE_CLOCK = re.compile(r"\bclock\.(now|time)\(")  # runs/clock.py
# Here it only labels: when an event was made, since when a call is out. Nothing is decided by it.
LABELS = {"decisions/fresh.py", "execution/deltas.py", "execution/gate.py", "execution/tool_call.py"}


def test_b32_nothing_is_decided_by_the_clock_of_a_process() -> None:
    """Leases, deadlines and timers are compared with PostgreSQL's clock, and within a process with CLOCK_BOOTTIME."""
    decides = [p for name in ("decisions", "execution", "supervisor") for p in (ROOT / "runs" / name).rglob("*.py")]
    for clock, allowed in ((WALL_CLOCK, set()), (DATABASE_CLOCK, LABELS)):
        assert {str(p.relative_to(ROOT / "runs")) for p in decides if clock.search(p.read_text())} == allowed


@pytest.mark.parametrize("path", SOURCES, ids=lambda p: str(p.relative_to(ROOT)))
def test_a_module_fits_in_three_hundred_lines_and_says_why_it_exists(path):
    text = path.read_text()
    assert len(text.splitlines()) <= 300
    assert not text.strip() or ast.get_docstring(ast.parse(text)), "the first line says the module's reason"
