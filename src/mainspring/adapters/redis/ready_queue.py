"""`ports.ready_queue.ReadyQueue` in Redis."""

import json
from collections import defaultdict
from collections.abc import Awaitable, Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from functools import lru_cache
from typing import Any, Final
from uuid import UUID
from zlib import crc32

from mainspring.adapters.redis.link import Link, Script, script_of
from mainspring.adapters.redis.ranges import MICROSECOND, Row, is_id, microseconds, row_of, rows_in
from mainspring.domain.ids import partition_of
from mainspring.domain.placement import labels_of
from mainspring.domain.priority import (
    HIGHEST,
    LANES,
    LOWEST,
    STEPS,
    Level,
    lane_bands,
    lane_of,
)
from mainspring.ports.hooks import HookPoint, Hooks, NoHooks
from mainspring.ports.ready_queue import (
    Entry,
    Feeding,
    ReadyFigures,
    ReadyQueueUnavailable,
    Taken,
    TakeRequest,
)

PUT: Final = script_of("prelude", "put")
REMOVE: Final = script_of("prelude", "remove")
TAKE: Final = script_of("prelude", "take")
BEGIN: Final = script_of("prelude", "begin")
FINISH: Final = script_of("prelude", "finish")
FIGURES: Final = script_of("prelude", "figures")

BATCH: Final = 500
"""Entries of one call of a script, which nobody else can run beside."""

MOST: Final = 20_000
"""Ids of one queue, priority and type that those who submit may add; feeding stops before."""

FED_SECONDS: Final = 10.0
"""A slice that was not fed for so long is not trusted any more."""

EPOCH_SECONDS: Final = 30.0
"""An epoch under which nobody fed a slice for so long does not stand in the way of lower ones."""

UNCONFIRMED_SECONDS: Final = 5.0
"""What was taken and not confirmed for so long comes back."""

ANY_TIME: Final = -1
"""An entry is meant whatever its time is."""

_READ: Final = 100
_PER_SECOND: Final = 1_000_000


class RedisReadyQueue:
    """`ports.ready_queue.ReadyQueue` under a prefix, in so many slices."""

    def __init__(
        self, link: Link, prefix: str, *, slices: int = 1, hooks: Hooks | None = None
    ) -> None:
        self._link = link
        self._hooks = NoHooks() if hooks is None else hooks
        # What stands in braces decides on which node of a cluster a key is.
        self._prefixes = [f"{{{prefix}:{number}}}:" for number in range(slices)]

    @property
    def slices(self) -> int:
        """Into how many parts it is divided."""
        return len(self._prefixes)

    async def put(self, entries: Sequence[Entry]) -> None:
        """Add tasks that wait in the store."""
        await _all(
            self.put_rows(PUT, number, ("", MOST), part) for number, part in self._parts(entries)
        )

    async def put_rows(
        self, script: Script, number: int, head: tuple[Any, ...], rows: Sequence[Row]
    ) -> int | None:
        """Run a script on rows, in batches; returns the sum, or None when it says that another
        owner feeds the slice.
        """
        count = 0
        for first in range(0, len(rows), BATCH):
            batch = rows[first : first + BATCH]
            done = await self._run(script, number, *head, *_packed(batch))
            if done < 0:
                return None
            count += done
            if first + BATCH < len(rows):
                await self._hooks.reach(HookPoint.PUSH_PARTIAL_BATCH)
        return count

    async def take(self, request: TakeRequest) -> Taken:
        """Take what is due, from one slice after the other."""
        found: list[tuple[UUID, Level]] = []
        waits: list[float] = []
        is_complete = True
        away: list[ReadyQueueUnavailable] = []
        served = [request.served.get(lane, 0) for lane in LANES]
        # Each request begins elsewhere, and a request that is repeated at the same place.
        start = crc32(request.token.encode())
        for offset in range(self.slices):
            limit = request.limit - len(found)
            if limit <= 0:
                break
            number = (start + offset) % self.slices
            try:
                answer = await self._take(number, request, limit, served)
            except ReadyQueueUnavailable as error:
                # The others may be on servers that answer.
                is_complete = False
                away.append(error)
                continue
            is_complete &= bool(answer[0])
            if answer[1]:
                waits.append(max(0.0, int(answer[1]) / _PER_SECOND))
            for task_id, lane in zip(answer[2::2], answer[3::2], strict=True):
                if is_id(task_id):
                    served[lane - 1] += 1
                    found.append((UUID(task_id.decode()), LANES[lane - 1]))
        if len(away) == self.slices:
            raise away[0]
        is_short = len(found) < request.limit
        return Taken(found, min(waits, default=None) if is_short else None, is_complete)

    async def _take(
        self, number: int, request: TakeRequest, limit: int, served: list[int]
    ) -> list[Any]:
        answer: list[Any] = await self._run(
            TAKE,
            number,
            request.token,
            microseconds(request.now),
            limit,
            _json(request.task_types),
            "null" if request.queues is None else _json(request.queues),
            _plan_of(request.lanes, request.limit_seconds),
            json.dumps(served),
        )
        return answer

    async def confirm(self, tokens: Sequence[str]) -> None:
        """Say that what was taken under these tokens has been dealt with."""
        if not tokens:
            return
        await _all(
            self._link.ask(
                prefix,
                [("HDEL", f"{prefix}taken", *tokens), ("ZREM", f"{prefix}times", *tokens)],
            )
            for prefix in self._prefixes
        )

    async def remove(self, entries: Sequence[Entry]) -> None:
        """Drop tasks that do not wait any more."""
        await _all(
            self.put_rows(REMOVE, number, ("",), [(name, one, ANY_TIME) for name, one, _ in part])
            for number, part in self._parts(entries)
        )

    async def pause(self, queue: str, *, is_paused: bool) -> None:
        """Let nothing of a queue be taken, or let it be taken again."""
        command = "SADD" if is_paused else "SREM"
        await _all(
            self._link.ask(prefix, [(command, f"{prefix}paused", queue)])
            for prefix in self._prefixes
        )

    async def begin(self, feeding: Feeding) -> "RedisRound | None":
        """Begin to feed a slice."""
        names = await self._run(
            BEGIN,
            feeding.slice,
            feeding.epoch,
            microseconds(feeding.until),
            int(UNCONFIRMED_SECONDS * _PER_SECOND),
            int(EPOCH_SECONDS * 1000),
            *sorted(feeding.paused),
        )
        if names is None:
            return None
        held: dict[bytes, dict[bytes, int]] = {}
        key = self._prefixes[feeding.slice]
        prefix = key.encode()
        for first in range(0, len(names), _READ):
            part = names[first : first + _READ]
            answers = await self._link.ask(
                key, [("ZRANGE", prefix + b"r:" + name, 0, -1, "WITHSCORES") for name in part]
            )
            for name, flat in zip(part, answers, strict=True):
                rows = rows_in(name, flat)
                if rows is None:
                    # What waits of it is missing then, and comes back with this round.
                    drop = [("DEL", prefix + b"r:" + name), ("ZREM", prefix + b"heads", name)]
                    await self._link.ask(key, drop)
                else:
                    held[name] = rows
        return RedisRound(self, feeding, held)

    async def finish(self, feeding: Feeding, limits: Iterable[tuple[bytes, int]]) -> bool:
        """End a round of feeding; False: another owner feeds the slice by now."""
        flat = [one for limit in limits for one in limit]
        lasts = int(FED_SECONDS * 1000)
        return bool(await self._run(FINISH, feeding.slice, feeding.epoch, lasts, *flat))

    async def figures(self) -> ReadyFigures:
        """Count what is held, where it can be; a slice that is away is none that is fed."""
        counts: list[list[int]] = []
        away: list[ReadyQueueUnavailable] = []
        for number in range(self.slices):
            try:
                counts.append(await self._run(FIGURES, number))
            except ReadyQueueUnavailable as error:
                away.append(error)
        if not counts:
            raise away[0]
        entries, taken, fed = (sum(column) for column in zip(*counts, strict=True))
        return ReadyFigures(entries=entries, taken=taken, fed=fed, slices=self.slices)

    async def close(self) -> None:
        """Release connections. Safe to call twice."""
        await self._link.close()

    async def _run(self, script: Script, number: int, *arguments: Any) -> Any:
        return await self._link.run(script, self._prefixes[number], *arguments)

    def _parts(self, entries: Iterable[Entry]) -> Iterable[tuple[int, list[Row]]]:
        """Yield the rows of each slice that has some. Branches of queues are not kept here."""
        parts: dict[int, list[Row]] = defaultdict(list)
        for entry in entries:
            if not labels_of(entry.queue):
                rows = parts[partition_of(entry.id, self.slices)]
                rows.append(row_of(entry))
        yield from parts.items()


class RedisRound:
    """`ports.ready_queue.Round`."""

    def __init__(
        self, queue: RedisReadyQueue, feeding: Feeding, held: dict[bytes, dict[bytes, int]]
    ) -> None:
        self._queue = queue
        self._feeding = feeding
        self._held = held

    async def fill(
        self, entries: Sequence[Entry], limits: Mapping[tuple[str, int], datetime]
    ) -> int | None:
        """Let the slice hold what waits in the store."""
        wanted: dict[bytes, dict[bytes, int]] = defaultdict(dict)
        for entry in entries:
            if partition_of(entry.id, self._queue.slices) == self._feeding.slice:
                name, task_id, time = row_of(entry)
                wanted[name][task_id] = time
        number, epoch = self._feeding.slice, self._feeding.epoch
        missing = [
            (name, task_id, time)
            for name, ids in wanted.items()
            for task_id, time in ids.items()
            if self._held.get(name, {}).get(task_id) != time
        ]
        over = [
            (name, task_id, time)
            for name, ids in self._held.items()
            for task_id, time in ids.items()
            if task_id not in wanted.get(name, ())
        ]
        put = await self._queue.put_rows(PUT, number, (epoch, MOST), missing)
        if put is None or await self._queue.put_rows(REMOVE, number, (epoch,), over) is None:
            return None
        is_ours = await self._queue.finish(self._feeding, self._limits(wanted, limits))
        return put if is_ours else None

    def _limits(
        self, wanted: Iterable[bytes], limits: Mapping[tuple[str, int], datetime]
    ) -> Iterable[tuple[bytes, int]]:
        for name in {*wanted, *self._held}:
            priority, queue, _ = name.decode().split(" ", 2)
            limit = limits.get((queue, int(priority)))
            if limit is not None:
                yield name, microseconds(limit)


async def _all(calls: Iterable[Awaitable[object]]) -> None:
    """Make every call, though one fails: slices may be on different servers. Then raise that."""
    failed: ReadyQueueUnavailable | None = None
    for call in calls:
        try:
            await call
        except ReadyQueueUnavailable as error:
            failed = failed or error
    if failed is not None:
        raise failed


def _packed(rows: Iterable[Row]) -> Iterable[bytes]:
    """Return for each range its name and all its rows as one text: the driver and the server work
    for each argument.
    """
    ranges: dict[bytes, list[bytes]] = defaultdict(list)
    for name, task_id, time in rows:
        ranges[name].append(b"%b %d" % (task_id, time))
    for name, texts in ranges.items():
        yield from (name, b" ".join(texts))


def _json(names: tuple[str, ...]) -> str:
    return json.dumps(names)


@lru_cache(maxsize=64)
def _plan_of(lanes: tuple[Level, ...] | None, limit_seconds: float) -> str:
    """Return at which ages entries of each priority are served in which lane."""
    served = set(LANES) if lanes is None else {lane_of(lane) for lane in lanes}
    bands: dict[int, list[tuple[int, int, int]]] = defaultdict(list)
    for priority in range(HIGHEST, LOWEST + 1):
        for lane, youngest, oldest in lane_bands(priority, limit_seconds):
            if lane in served:
                last = -1 if oldest is None else _age(oldest)
                bands[priority].append((LANES.index(lane) + 1, _age(youngest), last))
    # In all lanes an entry can be taken as soon as it is due, and stays so.
    wakes = {
        priority: [0] if lanes is None else [youngest for _, youngest, _ in rows]
        for priority, rows in bands.items()
    }
    return json.dumps({"bands": bands, "wakes": wakes, "steps": [STEPS[lane] for lane in LANES]})


def _age(seconds: float) -> int:
    return timedelta(seconds=seconds) // MICROSECOND
