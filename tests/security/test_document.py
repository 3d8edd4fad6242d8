"""docs/security.md: every threat has a test, and every test that it names is there."""

import ast
import re
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
TEXT = (ROOT / "docs/security.md").read_text(encoding="utf-8")
_NAMED = re.compile(r"`(tests/[\w/]+\.py)(?:::(\w+))?`")


def test_every_test_that_is_named_is_there():
    found = _NAMED.findall(TEXT)
    assert len(found) > 40
    for file, test in found:
        nodes = ast.parse((ROOT / file).read_text(encoding="utf-8")).body
        names = {node.name for node in nodes if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)}
        assert test in names if test else names, f"{file}::{test}"


def test_every_threat_has_a_test():
    section = TEXT.partition("## Threats")[2].partition("\n## ")[0]
    rows = [line for line in section.splitlines() if line.startswith("| ")][1:]
    assert len(rows) > 25 and not [row for row in rows if _NAMED.search(row) is None]
