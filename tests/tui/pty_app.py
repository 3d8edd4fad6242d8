"""The app in a pseudo-terminal: how it is started, held back, broken on purpose, and what it must leave behind."""

from __future__ import annotations

import sys
from pathlib import Path

from tests.tui.terminal_session import TerminalSession

ROOT = Path(__file__).resolve().parents[2]
RLTUI = [sys.executable, "-m", "rltui"]
SIZE = {"columns": 140, "rows": 40}
LEFT_ON = (1049, 1000, 1002, 1003, 1006, 2004, 1004)  # modes that the app turns on: none may stay so

# Run in the app's process before it: changes a module as soon as that has been imported.
PLANT = """
import importlib.util, sys
class Plant:
    def find_spec(self, name, path=None, target=None):
        if name != {module!r}:
            return None
        sys.meta_path.remove(self)
        spec = importlib.util.find_spec(name)
        load = spec.loader.exec_module
        def exec_module(module):
            load(module)
            change(module)
        spec.loader.exec_module = exec_module
        return spec
sys.meta_path.insert(0, Plant())
"""
# Holds back whoever imports one of these, until a file is there.
HOLD = """
import pathlib, sys, time
class Hold:
    def find_spec(self, name, path=None, target=None):
        while name in {names!r} and not pathlib.Path({gate!r}).exists():
            time.sleep(0.01)
sys.meta_path.insert(0, Hold())
"""


def started_with(folder: Path, program: str) -> dict[str, str]:
    """The environment of a Python that runs `program` first."""
    folder.mkdir(exist_ok=True)
    (folder / "sitecustomize.py").write_text(program)
    return {"PYTHONPATH": f"{folder}:{ROOT}"}


def planted(folder: Path, module: str, change: str) -> dict[str, str]:
    """The environment of an rltui in whose `module` the function body `change` was done (indented by four)."""
    return started_with(folder, f"def change(module):\n{change}\n{PLANT.format(module=module)}")


def assert_put_back(session: TerminalSession) -> None:
    on = {mode for mode, is_on in session.private_modes().items() if is_on}
    assert not on & set(LEFT_ON), on
    assert session.private_modes()[25]
    assert session.terminal_modes() == session.modes_before


def escape(session: TerminalSession) -> None:
    """As a terminal sends it whose keys cannot be mistaken, which the app asks for (kitty's protocol): a lone \\x1b and
    the next key are alt and that key where a busy machine reads them together."""
    session.drain_until_quiet()
    session.write(b"\x1b[27u")
    session.drain_until_quiet()
