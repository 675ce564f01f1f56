"""Which levels are turned away when the store is slow, and when it only was."""

from collections.abc import Sequence
from typing import Any, cast

import pytest

from mainspring.core.shedding import Shedder
from mainspring.domain.errors import Overloaded
from mainspring.ports.store import Backlog, TaskReader


class SlowReader:
    """A store whose answers take as long as is said, and the clock that shows it."""

    def __init__(self, *answers: float) -> None:
        self._answers = list(answers)
        self._now = 0.0

    def monotonic(self) -> float:
        return self._now

    async def queue_names(self) -> list[str]:
        self._now += self._answers.pop(0)
        return []

    async def backlogs(self, bound: int) -> Sequence[Backlog]:  # noqa: ARG002
        return ()


def shedder_of(*answers: float) -> Shedder:
    reader: Any = SlowReader(*answers)
    return Shedder(cast("TaskReader", reader), reader)


async def test_a_store_that_stays_slow_sheds_all_but_the_urgent() -> None:
    shedder = shedder_of(4.0, 3.0)
    await shedder.sample()
    with pytest.raises(Overloaded, match=r"took 3\.0 s"):
        shedder.admit(5)
    shedder.admit(0)


async def test_an_answer_that_waited_for_the_end_of_an_outage_sheds_nothing() -> None:
    shedder = shedder_of(4.0, 0.01)
    await shedder.sample()
    shedder.admit(10)
    assert shedder.pressure.seconds == pytest.approx(0.01)
