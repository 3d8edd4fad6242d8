"""What pages refer to is there: pages, headings, files, keys, metrics; and they keep their measure."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.docs.pages import PAGES, ROOT, WRITTEN, anchors, inline, links, name, text
from tests.doctor.test_contract import METRIC
from trainer.config.keys import all_keys

MOST_LINES = 250
# Names of a rollout request that look like keys of the config.
REQUEST = re.compile(r"policy\.config(\..*)?|(env|metrics|info)\..*")
PLACE = re.compile(r"(?:rltui|trainer|tests|docs|sample_configs|themes)/[\w./-]*")
FAMILY = re.compile(
    r"(reward|gspo|logp_gap|mismatch_kl|canary|off_policy|batch|optim|time|trainer|rollouter|throughput|length|turns|tokens"
    r"|stop|error|judge|eval|system|ppo)/[a-z_]+"
)

pages = pytest.mark.parametrize("page", WRITTEN, ids=name)


@pytest.mark.parametrize("page", PAGES, ids=name)
def test_every_link_leads_somewhere(page: Path) -> None:
    for link in links(page):
        if link.startswith("https://"):
            continue
        target, _, anchor = link.partition("#")
        there = (page.parent / target).resolve() if target else page
        assert there.exists(), f"{name(page)}: {link}"
        assert not anchor or anchor in anchors(there), f"{name(page)}: {link}"


@pages
def test_every_file_that_is_named_is_there(page: Path) -> None:
    for code in inline(page):
        if PLACE.fullmatch(code) and not re.search(r"NAME|FILE|RUN", code):
            assert (ROOT / code).exists() or FAMILY.fullmatch(code), f"{name(page)}: {code}"


@pages
def test_every_key_that_is_named_is_one_of_the_config(page: Path) -> None:
    known = set(all_keys())
    sections = {key.partition(".")[0] for key in known}
    above = {key[:at] for key in known for at in range(len(key)) if key[at] == "."}
    for code in inline(page):
        word = re.match(r"[a-z_]+(?:\.[a-z_]+)+(?= =|\Z)", code)
        if word is None or word[0].partition(".")[0] not in sections or REQUEST.fullmatch(word[0]):
            continue
        if re.search(r"\.(jsonl|json|toml|py|md)\Z", word[0]):
            continue
        parts = word[0].split(".")
        within = {".".join(parts[:n]) for n in range(2, len(parts))} & known  # a table that is open below
        assert word[0] in known | above or within, f"{name(page)}: {word[0]}"


@pages
def test_every_metric_that_is_named_is_one_that_is_written(page: Path) -> None:
    written = "\n".join(path.read_text(encoding="utf-8") for path in (ROOT / "trainer").rglob("*.py"))
    composed = tuple(re.findall(r'f"([a-z_]+/[a-z_]*){', written))  # as f"eval/reward_{part}"
    for code in inline(page):
        if FAMILY.fullmatch(code) and not (ROOT / code).exists():
            known = METRIC.fullmatch(code) or f'"{code}"' in written or code.startswith(composed)
            assert known, f"{name(page)}: {code}"


@pytest.mark.parametrize("page", [page for page in WRITTEN if page != ROOT / "README.md"], ids=name)
def test_a_page_keeps_its_measure(page: Path) -> None:
    lines = text(page).splitlines()
    assert len(lines) <= (300 if page.name == "CONTRIBUTING.md" else MOST_LINES)  # five whole examples
    assert all(len(line) <= 120 for line in lines if not line.startswith("|")), name(page)


def test_the_index_names_every_page() -> None:
    index = ROOT / "docs/README.md"
    assert {page.name for page in PAGES if page.parent == index.parent} - set(links(index)) == {index.name}


@pages
def test_no_page_tells_of_the_machine_it_was_written_on(page: Path) -> None:
    assert re.search(r"(?<![\w.])/(tmp|work|root|mnt)/|/home/(?!you\b)|@localhost", text(page)) is None
