"""Ending attempts."""

from collections.abc import Sequence
from operator import attrgetter
from typing import Any, Final, TypeVar
from uuid import UUID

from mainspring.adapters.postgres.claim import Claiming
from mainspring.adapters.postgres.queries import QUERIES, Query
from mainspring.domain.errors import OutcomeUnknown, StoreUnavailable
from mainspring.domain.placement import base_of
from mainspring.domain.task import (
    ATTEMPTS_KEPT,
    Cancelled,
    Completed,
    Failed,
    FailureKind,
    Released,
    Retried,
    Settlement,
)
from mainspring.ports.hooks import HookPoint

E = TypeVar("E")

_COMPLETE: Final = QUERIES["complete"]
_RETRY: Final = QUERIES["retry"]
_FAIL: Final = QUERIES["fail"]
_CANCELLED: Final = QUERIES["end_cancelled"]
_RELEASE: Final = QUERIES["release"]

DEATHS: Final = [FailureKind.CRASHED.value]
"""The kinds of failure that a worker reports when a process died."""


class Settling(Claiming):
    """`TaskStore.settle`. Knows of claiming, because a task that is put back comes before what
    this process has read up to.
    """

    async def settle(self, settlements: Sequence[Settlement]) -> list[bool]:
        """End attempts; one statement for each kind of ending."""
        await self._hooks.reach(HookPoint.SETTLE_BEFORE_COMMIT)
        # Rows are locked in the order of their ids, so that two batches do not wait in a circle.
        kinds = _by_kind(sorted(settlements, key=_number_of))
        ended: set[tuple[UUID, int]] = set()
        try:
            ended |= await self._complete(kinds.get(Completed, []))
            ended |= await self._retry(kinds.get(Retried, []))
            ended |= await self._fail(kinds.get(Failed, []))
            ended |= await self._cancelled(kinds.get(Cancelled, []))
            ended |= await self._release(kinds.get(Released, []))
        except StoreUnavailable as error:
            if not ended:
                raise
            raise OutcomeUnknown(
                f"some of the attempts were ended and some were not: {error.message}"
            ) from error
        await self._hooks.reach(HookPoint.SETTLE_AFTER_COMMIT)
        return _answers(settlements, ended)

    async def _complete(self, ended: "_Endings[Completed]") -> set[tuple[UUID, int]]:
        results = [ending.result for _, _, ending in ended]
        # Without results the column is not given: the driver looks into each value of one that is.
        given = None if results.count(None) == len(results) else results
        return await self._end(_COMPLETE, ended, self._now(), (), (given,))

    async def _retry(self, ended: "_Endings[Retried]") -> set[tuple[UUID, int]]:
        delays = [ending.delay_seconds for _, _, ending in ended]
        answer = await self._end(
            _RETRY,
            ended,
            self._now(),
            (ATTEMPTS_KEPT,),
            (delays, *_failures([ending for _, _, ending in ended]), DEATHS),
        )
        if answer and min(delays) <= 0:
            self._put_back()
        return answer

    async def _fail(self, ended: "_Endings[Failed]") -> set[tuple[UUID, int]]:
        failures = _failures([ending for _, _, ending in ended])
        return await self._end(_FAIL, ended, self._now(), (ATTEMPTS_KEPT,), (*failures, DEATHS))

    async def _cancelled(self, ended: "_Endings[Cancelled]") -> set[tuple[UUID, int]]:
        reasons = [ending.reason for _, _, ending in ended]
        return await self._end(_CANCELLED, ended, self._now(), (), (reasons,))

    async def _release(self, ended: "_Endings[Released]") -> set[tuple[UUID, int]]:
        delays = [ending.delay_seconds for _, _, ending in ended]
        answer = await self._end(_RELEASE, ended, self._now(), (), (delays,))
        if answer and min(delays) <= 0:
            self._put_back()
        return answer

    async def _end(
        self,
        query: Query,
        ended: "_Endings[Any]",
        now: Any,
        before: tuple[Any, ...],
        columns: tuple[Any, ...],
    ) -> set[tuple[UUID, int]]:
        if not ended:
            return set()
        ids = [task_id for task_id, _, _ in ended]
        tokens = [token for _, token, _ in ended]
        rows = await self._main.fetch(query, now, *before, ids, tokens, *columns)
        self.free((base_of(row[2]), row[3]) for row in rows if row[3] is not None)
        return {(row[0], row[1]) for row in rows}

    def _put_back(self) -> None:
        self.read_from_the_beginning()
        self._announcer.ready()


_Endings = list[tuple[UUID, int, E]]


_number_of: Final = attrgetter("id.int")
"""Orders ids as the server does, by their bytes."""


def _by_kind(settlements: Sequence[Settlement]) -> dict[type[Any], "_Endings[Any]"]:
    kinds: dict[type[Any], _Endings[Any]] = {}
    for settlement in settlements:
        ending = settlement.ending
        endings = kinds.setdefault(type(ending), [])
        endings.append((settlement.id, settlement.fencing_token, ending))
    return kinds


def _failures(endings: Sequence[Retried | Failed]) -> tuple[list[str], list[str], list[str]]:
    failures = [ending.failure for ending in endings]
    return (
        [failure.kind.value for failure in failures],
        [failure.message for failure in failures],
        [failure.traceback for failure in failures],
    )


def _answers(settlements: Sequence[Settlement], ended: set[tuple[UUID, int]]) -> list[bool]:
    """Answer in order; of two settlements of one lease in a batch only one ended it."""
    if len(ended) == len(settlements):
        return [True] * len(settlements)
    answers = []
    for settlement in settlements:
        lease = (settlement.id, settlement.fencing_token)
        answers.append(lease in ended)
        ended.discard(lease)
    return answers
