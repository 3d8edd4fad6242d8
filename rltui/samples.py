"""The configs that ship with rltui: one list for `config new`, the form's presets and the tests."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from rltui.data import data_dir

# File names without .toml, in the order in which they are offered.
_ORDER = (
    "demo",
    "cpu_smoke",
    "single_gpu_lora",
    "single_gpu_qlora",
    "eight_gpu_full",
    "multi_turn",
    "multi_turn_tools",
    "step_rewards",
    "judge",
    "rule_judge",
    "remote_task_app",
    "seed_example",
    "legacy",
)


@dataclass(frozen=True, slots=True)
class Preset:
    """A sample. `title`: its first comment line, a sentence."""

    name: str
    path: Path

    @property
    def title(self) -> str:
        return title(self.path)


def presets() -> list[Preset]:
    """Every sample that is there, the ones for most people first. Empty: the installation lost them."""
    folder = data_dir("sample_configs")
    found = [Preset(name, folder / f"{name}.toml") for name in _ORDER]
    return [preset for preset in found if preset.path.is_file()]


def samples() -> dict[str, Path]:
    """The file of each preset by its name, in the same order."""
    return {preset.name: preset.path for preset in presets()}


def title(path: Path) -> str:
    """What a sample shows: its first comment line."""
    with path.open(encoding="utf-8") as file:
        return file.readline().removeprefix("#").strip()
