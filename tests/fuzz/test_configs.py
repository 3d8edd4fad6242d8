"""Whole config files, changed in their values and in their bytes, as commands and the trainer read them."""

from __future__ import annotations

import contextlib
import functools
import io
import json
import tempfile
import tomllib
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import tomlkit
from hypothesis import assume, given
from hypothesis import strategies as st

from rltui.cli.main import main
from rltui.samples import samples
from tests.fuzz.effort import examples, within
from tests.fuzz.mutate import mutated, torn
from trainer.config import ConfigError, Loaded, load_mapping, load_text
from trainer.config.edit import edit
from trainer.config.json_schema import json_schema
from trainer.config.toml_values import split_key

TEXTS = [path.read_text() for path in samples().values()]
LINES = sorted({line for text in TEXTS for line in text.splitlines() if line.strip()})
SECTIONS = ["algorithm", "services", "policy", "rollout", "training", "judge", "vllm", "compute", "zz", "training.lora"]


def written(document: Any) -> str:
    """Of another writer than ours. Not every mutation is a thing that TOML can say."""
    try:
        text = tomlkit.dumps(document)
        assert len(text.encode()) < 200_000 and tomllib.loads(text) is not None
        return text
    except Exception:  # whatever that writer says of such a thing: it is not what is tried here
        assume(False)
        raise


@st.composite
def swapped(draw: st.DrawFn, text: str) -> str:
    """Lines of other configs in the place of some of its own."""
    lines = text.splitlines()
    for _ in range(draw(st.integers(1, 4))):
        at = draw(st.integers(0, len(lines)))
        new = draw(st.sampled_from(LINES) | st.sampled_from(SECTIONS).map("[{}]".format) | st.text(max_size=6))
        lines[at : at + draw(st.integers(0, 1))] = [new]
    return draw(st.sampled_from(["\n", "\r\n"])).join(lines)


texts = st.sampled_from(TEXTS).flatmap(
    lambda text: st.one_of(
        mutated(tomllib.loads(text)).map(written),
        mutated(tomllib.loads(text)).map(written),
        swapped(text),
        torn(text.encode()).map(lambda raw: raw.decode(errors="replace")),
    )
)
validator = functools.cache(lambda: jsonschema.Draft202012Validator(json_schema()))


def given_values(loaded: Loaded) -> dict[str, Any]:
    """What was said in the file, under the keys of today."""
    given_ = (key for key, origin in loaded.origins.items() if origin.kind in ("file", "migrated"))
    return {key: functools.reduce(lambda table, part: table[part], split_key(key), loaded.values) for key in given_}


@examples(40)
@given(text=texts)
def test_a_file_is_a_valid_config_or_has_errors_with_their_place(text: str) -> None:
    with within(120):
        try:
            loaded = load_text(text, "my.toml", environ={}, device="cpu", follow_env_file=False)
        except ConfigError as error:
            told(error, text)
            return
        json.dumps(loaded.resolved())
        assert not (wrong := list(validator().iter_errors(tomllib.loads(text.removeprefix("\ufeff"))))), wrong[:2]
        again = load_text(edit("", given_values(loaded)), "again.toml", environ={}, device="cpu", follow_env_file=False)
        assert again.config_hash == loaded.config_hash
        body = load_mapping(tomllib.loads(text.removeprefix("\ufeff")), environ={}, device="cpu")
        assert body.config_hash == loaded.config_hash


def told(error: ConfigError, text: str) -> None:
    assert error.problems
    str(error).encode()
    for problem in (*error.problems, *error.warnings):
        assert problem.file == "my.toml", problem
        assert problem.why and (problem.key or problem.line or problem.code == "missing"), problem
        assert problem.line is None or 1 <= problem.line <= text.count("\n") + text.count("\r") + 2
        json.dumps(problem.as_dict(), allow_nan=False)


VERBS = (
    ["validate", "FILE"],
    ["config", "show", "FILE"],
    ["config", "migrate", "FILE"],
    ["config", "set", "FILE", "training.seed", "3"],
    ["config", "set", "FILE", "rollout.env_config.a.b", "[1, {c = 2}]", "--force"],
    ["config", "set", "FILE", "--unset", "policy", "--force"],
)


@examples(30)
@given(raw=texts.map(str.encode) | texts.flatmap(lambda text: torn(text.encode("utf-8"))), verb=st.sampled_from(VERBS))
def test_commands_on_a_file_do_it_or_leave_it_as_it_was(raw: bytes, verb: list[str]) -> None:
    """Whatever its bytes are. What is written parses, and says what was asked."""
    out, err = io.StringIO(), io.StringIO()
    with pytest.MonkeyPatch.context() as patch, tempfile.TemporaryDirectory() as place, within(120):
        patch.setenv("RLTUI_TRACEBACK", "1")
        file = Path(place, "my.toml")
        file.write_bytes(raw)
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            code = main([str(file) if word == "FILE" else word for word in verb] + ["--json"])
        after = file.read_bytes()
    assert code in (0, 1, 2), err.getvalue()
    document = json.loads(out.getvalue(), parse_constant=pytest.fail)
    assert isinstance(document, dict) and "fault of its own" not in err.getvalue()
    if after != raw:
        assert code == 0 and verb[1] in ("set", "migrate")
        data = tomllib.loads(after.decode().removeprefix("\ufeff"))
        if verb[3:4] == ["training.seed"]:
            assert data["training"]["seed"] == 3
        elif verb[3:4] == ["--unset"]:
            assert "policy" not in data
