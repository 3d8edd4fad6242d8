"""Episodes over HTTP: found by what they are, and one whole; against the run's own reader."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.server_reads.serving import Runs, Server, jobs
from trainer.rundir import RunReader
from trainer.rundir.resume import counts


def rows(folder: Path) -> list[dict[str, Any]]:
    """Index rows that count, each with the reason why it was left out in the end."""
    reader = RunReader(folder)
    resumes = reader.resumes()
    found = [row for row in reader.index() if counts(row, resumes)]
    return [{**row, "excl": row["excl"] or reader.merged_updates(row["n"]).get("excl")} for row in found]


@pytest.mark.parametrize(
    ("query", "fits"),
    [
        ({}, lambda row: True),
        ({"iteration": 3}, lambda row: row["iteration"] == 3),
        ({"split": "eval"}, lambda row: row["split"] == "eval"),
        ({"group": 5, "split": "train"}, lambda row: row["group"] == 5),
        ({"code": "group_dropped"}, lambda row: row["excl"] == "group_dropped"),
        ({"min_reward": 0.5, "max_reward": 0.75}, lambda row: row["R"] is not None and 0.5 <= row["R"] <= 0.75),
        ({"step": 4, "attempt": 1}, lambda row: row["step"] == 4 and row["attempt"] == 1),
    ],
)
@pytest.mark.parametrize("kind", ["failed", "resumed"])
def test_all_pages_together_are_what_fits(server: Server, runs: Runs, kind: str, query: dict, fits: Any) -> None:
    folder = runs(kind)
    url, found, after = jobs(server, folder, "rollouts"), [], -1
    while after is not None:
        page = server.http.get(url, params={**query, "after": after, "limit": 70}).json()
        found, after = found + page["rollouts"], page["next"]
        known = {n for group in page["groups"] for n in group["members"]}
        assert len(page["rollouts"]) <= 70 and all(not known.isdisjoint(group["members"]) for group in page["groups"])
    expected = [row for row in rows(folder) if fits(row)]
    assert [(row["n"], row["excl"]) for row in found] == [(row["n"], row["excl"]) for row in expected]


def test_a_row_has_what_became_known_later(server: Server, runs: Runs) -> None:
    folder = runs("healthy")
    row = server.http.get(
        jobs(server, folder, "rollouts"), params={"iteration": 1, "split": "train", "limit": 1}
    ).json()
    found, reader = row["rollouts"][0], RunReader(folder)
    later = reader.merged_updates(found["n"])
    assert found["adv"] == later["adv"] and found["updates"]["branches"]["0"] == later["branches"][0]
    assert found["n"] in row["groups"][0]["members"]


def test_one_episode_whole(server: Server, runs: Runs) -> None:
    folder = runs("healthy")
    reader = RunReader(folder)
    row = reader.index()[40]
    url = jobs(server, folder, f"rollouts/{row['cid']}")
    found = server.http.get(url).json()
    text = reader.episode(40)
    assert {name: found[name] for name in text if name != "excl"} == {k: v for k, v in text.items() if k != "excl"}
    assert "tokens" not in found and found == server.http.get(jobs(server, folder, "rollouts/40")).json()
    branch = server.http.get(url, params={"tokens": 1}).json()["tokens"][0]
    block = reader.token_block(text["branches"][0]["arr"])
    assert branch["arrays"]["ids"] == block["ids"].tolist() and not branch["removed"]
    assert len(branch["arrays"]["logp_learner"]) == len(branch["arrays"]["ids"])
    for unknown in ("nobody", "99999", "x" * 5_000):
        assert server.http.get(jobs(server, folder, f"rollouts/{unknown}")).json()["error"]["code"] == "not_found"


@pytest.mark.parametrize("query", ["iteration=x", "min_reward=nan", "split=test", "after=-2", "limit=0"])
def test_what_makes_no_sense_is_refused(server: Server, runs: Runs, query: str) -> None:
    answer = server.http.get(jobs(server, runs("healthy"), "rollouts") + "?" + query)
    assert answer.status_code == 400 and query.partition("=")[0] in answer.json()["detail"]
