"""The picture of the state machine is the table of the code."""

import re
from pathlib import Path

from mainspring.domain.status import TERMINAL, TRANSITIONS, TaskStatus

PAGE = Path(__file__).parents[2] / "docs" / "state_machine.md"


def _drawn() -> set[tuple[str, str, str]]:
    arrows = re.findall(r"^ {4}(\S+) --> (\S+) : (.+)$", PAGE.read_text(), re.MULTILINE)
    return {
        (source, target, name) for source, target, names in arrows for name in names.split(", ")
    }


def _defined() -> set[tuple[str, str, str]]:
    steps = set()
    for name, rule in TRANSITIONS.items():
        if rule.target is None:
            continue
        for source in rule.sources or {"[*]"}:
            steps.add((str(source), str(rule.target), str(name)))
    return steps


def test_every_arrow_is_a_transition_and_every_transition_an_arrow() -> None:
    assert _drawn() == _defined()


def test_the_states_without_a_way_out_are_drawn_as_final() -> None:
    drawn = set(re.findall(r"^ {4}(\S+) --> \[\*\]$", PAGE.read_text(), re.MULTILINE))
    assert drawn == {str(status) for status in TERMINAL - {TaskStatus.FAILED}}
