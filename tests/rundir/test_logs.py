from __future__ import annotations

import errno
import logging
import os
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from trainer.rundir import LogFile, known_secrets, mask_secrets

SECRET = "sk-" + "a1B2" * 8


@pytest.mark.parametrize(
    ("text", "masked"),
    [
        (f"using {SECRET} now", "using *** now"),
        ("ENVIRONMENT_API_KEY=abcd1234", "ENVIRONMENT_API_KEY=***"),
        ('{"api_key": "abcd1234", "n": 1}', '{"api_key": "***", "n": 1}'),
        ("Authorization: Bearer abcdefgh12345678", "Authorization: Bearer ***"),
        ("X-API-Key: abcd1234", "X-API-Key: ***"),
        ("https://user:pass1234@host/x", "https://user:***@host/x"),
        ("token hf_" + "x" * 20, "token ***"),
        ("password = 'hunter22'", "password = '***'"),
    ],
)
def test_key_like_strings_are_masked(text: str, masked: str) -> None:
    assert mask_secrets(text) == masked


@pytest.mark.parametrize(
    "text",
    [
        "gen_tokens_per_sec=280.5 tokens: 5",
        "monkey=banana",
        "max_tokens=64",
        "step 3: loss 0.1",
        "a key: value",
    ],
)
def test_plain_text_stays(text: str) -> None:
    assert mask_secrets(text) == text


def test_known_values_are_masked_wherever_they_stand() -> None:
    environ = {
        "ENVIRONMENT_API_KEY": "plainword1",
        "X_ALIASES": "other",
        "API_KEY_ALIASES": "firstalias,secondalias",
    }
    known = known_secrets(environ | {"MAX_TOKENS": "12345678", "SHORT_TOKEN": "abc"})
    assert "plainword1" in known and "secondalias" in known and "abc" not in known
    assert mask_secrets("got plainword1!", known) == "got ***!"


@settings(max_examples=40, deadline=None)
@given(st.lists(st.integers(1, 40), max_size=12))
def test_a_key_cut_in_pieces_never_reaches_the_file(tmp_path_factory: pytest.TempPathFactory, sizes: list[int]) -> None:
    path = tmp_path_factory.mktemp("log") / "taskapp.log"
    data = f"start\nkey {SECRET} end\nlast {SECRET}".encode()
    with LogFile(path) as log:
        for size in sizes:
            log.write(data[:size])
            data = data[size:]
        log.write(data)
    assert path.read_text() == "start\nkey *** end\nlast ***"


def test_rotation_keeps_four_and_loses_no_line(tmp_path: Path) -> None:
    path = tmp_path / "learner-0.log"
    with LogFile(path, attempt=1, rotate_bytes=1_000) as log:
        for number in range(90):
            log.write(f"line {number:03d} {'x' * 40}\n".encode())
    files = [path.with_name(f"{path.name}.{n}") for n in (4, 3, 2, 1)] + [path]
    assert all(0 < file.stat().st_size <= 1_000 for file in files)
    assert sorted(p.name for p in tmp_path.iterdir()) == sorted(file.name for file in files)
    text = "".join(file.read_text() for file in files)
    assert [int(row.split()[1]) for row in text.splitlines() if row.startswith("line")] == list(range(90))
    assert "attempt 1" in text


def test_a_rotation_that_fails_leaves_the_log_its_own_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "taskapp.log"
    with LogFile(path, rotate_bytes=10) as log:
        log.write(b"full of it\n")
        with monkeypatch.context() as fault, pytest.raises(OSError):
            fault.setattr(os, "replace", _refused)
            log.write(b"lost\n")
        with (tmp_path / "other").open("wb"):  # takes the lowest free descriptor
            log.write(b"next\n")
    assert (path.with_name("taskapp.log.1").read_text(), path.read_text()) == ("full of it\n", "next\n")
    assert not (tmp_path / "other").read_bytes()


def _refused(*_: object) -> None:
    raise OSError(errno.EROFS, "Read-only file system")


def test_attempts_append_after_a_line_of_their_own(tmp_path: Path) -> None:
    path = tmp_path / "coordinator.log"
    for attempt in (1, 2):
        with LogFile(path, attempt=attempt) as log:
            log.write(b"no end of line")
    rows = path.read_text().splitlines()
    assert rows[0].startswith("==== attempt 1 2") and rows[0].endswith("Z ====")
    assert rows[1] == rows[3] == "no end of line" and rows[2].startswith("==== attempt 2 ")


def test_a_progress_bar_and_an_endless_line_are_not_held_back(tmp_path: Path) -> None:
    path = tmp_path / "inference-0.log"
    with LogFile(path) as log:
        log.write(b"loading 10%\r")
        assert path.read_bytes() == b"loading 10%\r"
        log.write(b"y" * 100_000)
        assert path.stat().st_size > 100_000
        log.write(b"\xff\xfe\n")
    assert "\ufffd" in path.read_text()


@pytest.mark.parametrize(
    "piece", ["y", "eyJ" + "a" * 12 + "-", "a.", "api_key", "://a:", "bearer ", "sk-", "x:y@", "= "]
)
def test_no_line_makes_masking_slow(piece: str) -> None:
    """A pattern that backtracks would need hours for these."""
    mask_secrets(piece * (1_000_000 // len(piece)))


def test_a_logger_of_this_process_writes_there_masked_and_outlives_the_file(tmp_path: Path, capsys) -> None:
    log = LogFile(tmp_path / "gateway.log", secrets=["hush-hush"])
    logger, handler = logging.getLogger("tests.of.logs"), log.handler()
    logger.addHandler(handler)
    try:
        logger.warning("refused %s", "hush-hush")
        try:
            raise ValueError("odd")
        except ValueError:
            logger.exception("GET /x failed")
        log.close()
        logger.warning("too late")  # closed: lost, and nobody hears of it
    finally:
        logger.removeHandler(handler)
    text = (tmp_path / "gateway.log").read_text()
    assert "WARNING refused ***\n" in text and "ERROR GET /x failed\n" in text and "ValueError: odd\n" in text
    assert "too late" not in text and capsys.readouterr() == ("", "")
