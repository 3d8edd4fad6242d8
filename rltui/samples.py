"""The configs that ship with rltui: one list for `config new`, the form's presets and the tests."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from rltui.data import data_dir

# (file name without .toml, what it is called), in the order in which they are offered.
_ORDER = (
    ("demo", "demo"),
    ("cpu_smoke", "CPU smoke"),
    ("single_gpu_lora", "single GPU LoRA"),
    ("single_gpu_qlora", "QLoRA"),
    ("eight_gpu_full", "8 GPU full"),
    ("multi_turn", "multi-turn"),
    ("multi_turn_tools", "multi-turn with tools"),
    ("step_rewards", "step rewards per turn"),
    ("judge", "judge"),
    ("rule_judge", "judge of rules"),
    ("remote_task_app", "remote task app"),
    ("seed_example", "SDK example"),
    ("legacy", "old spellings"),
)


@dataclass(frozen=True, slots=True)
class Preset:
    """A sample. `label`: what it is called; `title`: its first comment line, a sentence."""

    name: str
    label: str
    path: Path

    @property
    def title(self) -> str:
        return title(self.path)


def presets() -> list[Preset]:
    """Every sample that is there, the ones for most people first. Empty: the installation lost them."""
    folder = data_dir("sample_configs")
    found = [Preset(name, label, folder / f"{name}.toml") for name, label in _ORDER]
    return [preset for preset in found if preset.path.is_file()]


def samples() -> dict[str, Path]:
    """The file of each preset by its name, in the same order."""
    return {preset.name: preset.path for preset in presets()}


def title(path: Path) -> str:
    """What a sample shows: its first comment line."""
    with path.open(encoding="utf-8") as file:
        return file.readline().removeprefix("#").strip()
