from __future__ import annotations

import time

import pytest

from rltui.model.episode_query import FilterError, parse
from rltui.model.find import Finder, FindError

# Each of them ran for minutes on a line of one letter, in a thread that nothing can interrupt.
HOSTILE = (
    "(A|AA)+b (A{1,50}){5}b (A?){30}A{30}b (.|A)*b! .*.*.*.*.*.*.*.*= (A|A)*b$ (x+x+)+y (?>A|AA)+b (A|AA)++b A*A*A*b "
    "(?:A|AA){64}b A{0,64}A{0,64}A{0,64}b (?:A?){20}b (?=(A+))\\1b "
    "A?A?A?A?A?A?A?A?A?A?A?A?A?A?A?A?A?A?A?A?A?A?A?A?A?A?b"
).split()


@pytest.mark.parametrize("text", HOSTILE)
def test_what_may_take_for_ever_is_refused(text: str) -> None:
    with pytest.raises(FindError, match="for ever"):
        Finder(text, regex=True)
    for where in (f"text = /{text}/", f"/{text}/"):
        with pytest.raises(FilterError, match="for ever"):
            parse(where)


@pytest.mark.parametrize("text", ["A+b", "A*A*b", "(error|A).*=.*b", r"^\s*\S+ = .*$", "(A)?(A)?A*b"])
def test_what_is_searched_for_ends_soon_on_any_line(text: str) -> None:
    """With the time that a line of the greatest length takes, in a thread where nothing interrupts it."""
    finder, line = Finder(text, regex=True), "A" * 100_000
    began = time.thread_time()
    assert not finder.matches(line)
    assert time.thread_time() - began < 10
    assert not Finder("A+A+$", regex=True).matches("A" * 3_000 + "!")
    assert Finder("A+A+$", regex=True).matches("!" * 3_000 + "AA")
    assert Finder("x.*y.*z", regex=True).matches("-" * 3_000 + "x y z")  # in whichever piece


def test_a_machine_that_is_busy_elsewhere_is_no_fault_of_the_expression():
    def lines():
        time.sleep(0.5)
        yield 7, "abb"

    assert Finder("b+", regex=True).first(lines()) == 7
