"""docs/judges.md says what is."""

from __future__ import annotations

import re
from pathlib import Path

from trainer.config.rules.rewards import RULE_KINDS
from trainer.judge.providers import PROVIDERS
from trainer.judge.rubric import read_rubric_file

GUIDE = (Path(__file__).parents[2] / "docs/judges.md").read_text()


def test_the_rubric_of_the_guide_is_one(tmp_path: Path) -> None:
    block = re.search(r"```toml\n(.*?)```", GUIDE, re.DOTALL)
    (tmp_path / "dinner.toml").write_text(block[1])
    rubric = read_rubric_file(tmp_path / "dinner.toml")
    assert [criterion.track for criterion in rubric.outcome.criteria] == ["fact", "style"]
    assert rubric.id == "dinner" and rubric.event.criteria[0].track == "default"


def test_every_kind_and_provider_is_told() -> None:
    kinds = {kind for row in re.findall(r"^\| ([a-z_, ]+) \| (?!if)", GUIDE, re.MULTILINE) for kind in row.split(", ")}
    assert set(RULE_KINDS) <= kinds
    assert all(name in GUIDE for name in PROVIDERS)
