from __future__ import annotations

import pytest

from trainer.inference.ledger import Episode, Ledger
from trainer.inference.sampling import CallPolicy

POLICY = CallPolicy("train", 1.0, 8)


def test_an_id_is_unknown_open_in_its_grace_and_gone():
    now = 0.0
    ledger = Ledger(lambda: now)
    assert ledger.find("a") == "unknown"
    ledger.open("a", POLICY)
    assert isinstance(ledger.find("a"), Episode)
    ledger.close("a")
    now = 9.9
    assert isinstance(ledger.find("a"), Episode)
    now = 10.1
    assert ledger.find("a") == "gone"
    with pytest.raises(ValueError, match="used before"):
        ledger.open("a", POLICY)


def test_what_happens_in_the_grace_is_not_recorded():
    ledger = Ledger()
    ledger.open("a", POLICY)
    record = ledger.close("a")
    late = ledger.find("a")
    assert isinstance(late, Episode)
    late.fail("call_limit", 429, 0, "late")
    assert record.errors == []
