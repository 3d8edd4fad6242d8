"""The laws of the house: who may import whom. Every import counts, also one inside a function."""

from __future__ import annotations

import ast
import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
HEAVY = {"torch", "transformers", "peft", "vllm", "bitsandbytes", "accelerate", "trl"}
FACE = {"textual", "rltui"}
WITHOUT_TORCH = ["config", "rundir", "taskapp", "judge", "rewards", "rollout", "placing"]
WITHOUT_TEXTUAL = [
    "model", "charts", "actions", "look", "terminal", "cli", "sources", "launch", "smoke", "preflight", "doctor",
    "server", "sdk",
]  # fmt: skip
# They import a package that is an extra, in the process of a task app that needs it.
WITH_AN_EXTRA = {f"trainer.taskapp.verifiers.{name}" for name in ("answer", "chat", "environment")}
OPEN_TO_RLTUI = ["config", "rundir", "taskapp", "judge", "rewards"]


def sources(folder: str) -> list[Path]:
    return sorted((ROOT / folder).rglob("*.py"))


def imports(path: Path) -> Iterator[tuple[int, str]]:
    """(line, full module name) of every import in the file: absolute, relative, and by a literal name."""
    package = list(path.relative_to(ROOT).with_suffix("").parts[:-1])
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"), filename=str(path))):
        if isinstance(node, ast.Import):
            yield from ((node.lineno, alias.name) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            above = package[: len(package) - node.level + 1] if node.level else []
            base = ".".join([*above, *([node.module] if node.module else [])])
            yield from ((node.lineno, f"{base}.{alias.name}") for alias in node.names)
        elif isinstance(node, ast.Call) and _name(node.func) in ("import_module", "__import__"):
            if node.args and isinstance(node.args[0], ast.Constant) and isinstance(node.args[0].value, str):
                yield node.lineno, node.args[0].value


def _name(func: ast.expr) -> str | None:
    return func.attr if isinstance(func, ast.Attribute) else getattr(func, "id", None)


def breaches(files: list[Path], forbidden) -> list[str]:
    return [
        f"{path.relative_to(ROOT)}:{line} imports {name}"
        for path in files
        for line, name in imports(path)
        if forbidden(name)
    ]


def test_no_text_of_the_interface_is_read_as_markup():
    """What a model wrote is data: what reads markup would carry out what stands in it."""
    found = []
    for path in sources("rltui"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"), filename=str(path))):
            if isinstance(node, ast.Call):
                name, given = _name(node.func), [word.arg for word in node.keywords]
                forms = name in ("Static", "Label") and (node.args or "content" in given) and "markup" not in given
                if forms or name in ("from_markup", "render_markup", "notify", "Markdown", "RichLog"):
                    found.append(f"{path.relative_to(ROOT)}:{node.lineno} {name}")
    assert found == []


def test_rltui_never_imports_what_loads_torch():
    assert not breaches(sources("rltui"), lambda name: name.split(".")[0] in HEAVY)


def test_rltui_knows_five_parts_of_trainer_and_no_more():
    allowed = {f"trainer.{part}" for part in OPEN_TO_RLTUI}

    def forbidden(name: str) -> bool:
        parts = name.split(".")
        return parts[0] == "trainer" and ".".join(parts[:2]) not in allowed

    assert not breaches(sources("rltui"), forbidden)


def test_trainer_never_imports_the_face():
    assert not breaches(sources("trainer"), lambda name: name.split(".")[0] in FACE)


@pytest.mark.parametrize("part", WITHOUT_TORCH)
def test_these_parts_of_trainer_never_import_torch(part):
    assert not breaches(sources(f"trainer/{part}"), lambda name: name.split(".")[0] in HEAVY)


@pytest.mark.parametrize("part", WITHOUT_TEXTUAL)
def test_these_parts_of_rltui_never_import_textual(part):
    """cli/app.py opens the interface: it imports rltui.app inside a function."""
    assert not breaches(sources(f"rltui/{part}"), lambda name: name.split(".")[0] == "textual")


def test_ray_is_imported_by_the_program_that_asks_it_alone():
    allowed = ROOT / "trainer" / "placing" / "ray.py"
    files = [path for folder in ("trainer", "rltui") for path in sources(folder) if path != allowed]
    assert not breaches(files, lambda name: name.split(".")[0] == "ray")
    top = [node for node in ast.parse(allowed.read_text()).body if isinstance(node, ast.Import)]
    assert "ray" not in {alias.name for node in top for alias in node.names}


@pytest.mark.parametrize(
    "part", ["server", "sdk", "doctor", "charts", "actions", "look", "sources", "terminal", "export"]
)
def test_these_parts_of_rltui_never_import_the_command_line(part):
    assert not breaches(sources(f"rltui/{part}"), lambda name: f"{name}.".startswith("rltui.cli."))


@pytest.mark.parametrize(
    ("folders", "watched"),
    [
        ([*(f"trainer/{part}" for part in WITHOUT_TORCH), *(f"rltui/{part}" for part in WITHOUT_TEXTUAL)], None),
        (["rltui"], HEAVY),
    ],
)
def test_nothing_of_these_parts_loads_torch_or_the_interface_when_imported(folders, watched):
    """What the files say is one thing; what their imports pull in is another: import them all and look."""
    modules = [
        ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__")
        for folder in folders
        for path in sources(folder)
        if path.stem != "__main__"
    ]
    modules = [name for name in modules if name not in WITH_AN_EXTRA]
    assert _loaded_after(f"import importlib; [importlib.import_module(m) for m in {modules!r}]", watched) == []


def test_help_loads_nothing_heavy():
    code = "from rltui.cli.main import main; assert main(['--help']) == 0"
    assert _loaded_after(code, {*HEAVY, "textual", "numpy", "pydantic", "tomlkit", "httpx"}) == []


def _loaded_after(code: str, watched: set[str] | None = None) -> list[str]:
    watch = sorted(watched or {*HEAVY, "textual"})
    tail = f"; import json, sys; print(json.dumps([m for m in {watch!r} if m in sys.modules]))"
    done = subprocess.run([sys.executable, "-c", code + tail], capture_output=True, text=True, cwd=ROOT)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1])
