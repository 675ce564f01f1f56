"""The ready queue as its port promises it, on real servers: in one slice and in three, and
in a cluster.
"""

import random
from collections.abc import AsyncIterator, Sequence
from datetime import timedelta
from itertools import count
from typing import Any
from uuid import UUID

import pytest

from conformance.scene import LostReplyError, Trap
from fixtures.valkey import ValkeyServer
from mainspring.adapters.redis import link as links
from mainspring.adapters.redis import ready_queue as queues
from mainspring.adapters.redis.link import RedisLink, RedisOptions
from mainspring.adapters.redis.ready_queue import RedisReadyQueue
from mainspring.adapters.system import SystemClock
from mainspring.config import Settings
from mainspring.domain.ids import make_id, partition_of, random_bits_needed
from mainspring.domain.priority import LANES, Level, lane_after, rank
from mainspring.ports.hooks import HookPoint
from mainspring.ports.ready_queue import (
    Entry,
    Feeding,
    ReadyFigures,
    ReadyQueueUnavailable,
    Taken,
    TakeRequest,
)
from mainspring.wiring.redis import redis_link
from manual_clock import START

EPOCH = 7


class Desk:
    """A ready queue with short ways to say things."""

    def __init__(self, queue: RedisReadyQueue, server: ValkeyServer) -> None:
        self.queue = queue
        self.server = server
        self.now = START
        self._chance = random.Random(5)
        self._tokens = count()

    def entry(self, seconds: float = 0.0, **fields: Any) -> Entry:
        bits = self._chance.getrandbits(random_bits_needed())
        known: dict[str, Any] = {"queue": "default", "priority": 5, "task_type": "mail"}
        return Entry(
            make_id(1, bits, None),
            **known | fields,
            scheduled_at=START + timedelta(seconds=seconds),
        )

    def entries(self, number: int, **fields: Any) -> list[Entry]:
        return [self.entry(each / 1000, **fields) for each in range(number)]

    async def feed(
        self,
        entries: Sequence[Entry] = (),
        limits: dict[tuple[str, int], Any] | None = None,
        *,
        epoch: int = EPOCH,
        paused: frozenset[str] = frozenset(),
    ) -> list[int | None]:
        missing = []
        for number in range(self.queue.slices):
            until = START + timedelta(seconds=30)
            began = await self.queue.begin(
                Feeding(slice=number, epoch=epoch, until=until, paused=paused)
            )
            missing.append(None if began is None else await began.fill(entries, limits or {}))
        return missing

    async def ask(self, limit: int = 1000, **fields: Any) -> Taken:
        token = fields.pop("token", f"t{next(self._tokens)}")
        fields = {"task_types": ("mail",), "now": self.now, **fields}
        return await self.queue.take(TakeRequest(token=token, limit=limit, **fields))

    async def take(self, limit: int = 1000, **fields: Any) -> list[UUID]:
        return [task_id for task_id, _ in (await self.ask(limit, **fields)).found]

    def advance(self, seconds: float) -> None:
        self.now += timedelta(seconds=seconds)


@pytest.fixture
def trap() -> Trap:
    return Trap()


@pytest.fixture
async def desk(
    request: pytest.FixtureRequest, valkey_server: ValkeyServer, valkey_prefix: str, trap: Trap
) -> AsyncIterator[Desk]:
    slices = getattr(request, "param", 1)
    url = valkey_server.url
    if slices == "in a cluster":
        slices, url = 6, request.getfixturevalue("valkey_cluster").url
    link = redis_link(Settings(redis_url=url))
    queue = RedisReadyQueue(link, valkey_prefix, slices=slices, hooks=trap)
    yield Desk(queue, valkey_server)
    await queue.close()


@pytest.fixture
async def lone(own_valkey: ValkeyServer) -> AsyncIterator[Desk]:
    """On a server that the test may harm."""
    queue = RedisReadyQueue(RedisLink(RedisOptions(url=own_valkey.url), SystemClock()), "p")
    yield Desk(queue, own_valkey)
    await queue.close()


in_slices = pytest.mark.parametrize("desk", [1, 3, "in a cluster"], indirect=True)


def ids_of(entries: Sequence[Entry]) -> list[UUID]:
    return [entry.id for entry in entries]


@in_slices
async def test_what_was_put_is_taken_once_when_it_is_due(desk: Desk) -> None:
    await desk.feed()
    entries = desk.entries(40)
    await desk.queue.put(entries)
    desk.advance(0.0195)
    first = await desk.ask(15)
    assert len(first.found) == 15
    rest = await desk.ask()
    assert {task_id for task_id, _ in first.found + rest.found} == {*ids_of(entries[:20])}
    assert rest.next_due_seconds == pytest.approx(0.0005)
    assert rest.is_complete
    desk.advance(1)
    assert {*await desk.take()} == {*ids_of(entries[20:])}
    assert await desk.ask() == Taken([], None, is_complete=True)


async def test_the_order_is_that_of_rank_and_the_lane_that_of_age(desk: Desk) -> None:
    entries = [desk.entry(60.0 * each, priority=each % 11) for each in range(44)]
    await desk.feed(entries)
    desk.advance(7200)
    for lane in LANES:
        found = (await desk.ask(lanes=(lane,))).found
        mine = [
            entry
            for entry in entries
            if lane_after(entry.priority, (desk.now - entry.scheduled_at).total_seconds()) is lane
        ]
        mine.sort(key=lambda entry: (rank(entry.priority, entry.scheduled_at), entry.id))
        assert found == [(entry.id, lane) for entry in mine]


async def test_long_ranges_share_by_weight(desk: Desk) -> None:
    entries = [entry for priority in (0, 2, 5, 8) for entry in desk.entries(600, priority=priority)]
    await desk.feed(entries)
    desk.advance(1)
    found = (await desk.ask(1000)).found
    assert [sum(lane is each for _, lane in found) for each in LANES] == [500, 300, 150, 50]
    served = dict(zip(LANES, (1000, 0, 0, 0), strict=True))
    assert {lane for _, lane in (await desk.ask(50, served=served)).found} == set(LANES[1:])


async def test_other_types_and_queues_neither_come_nor_stand_in_the_way(desk: Desk) -> None:
    strangers = [*desk.entries(300, task_type="sms"), *desk.entries(300, queue="other")]
    mine = desk.entry(0.5)
    await desk.feed([*strangers, mine])
    desk.advance(1)
    assert await desk.take(5, queues=("default",)) == [mine.id]


@in_slices
async def test_a_request_that_is_repeated_has_the_same_answer(desk: Desk) -> None:
    await desk.feed(desk.entries(20))
    desk.advance(1)
    first = await desk.ask(8, token="same")
    again = await desk.ask(8, token="same")
    assert again.found == first.found
    assert len(first.found) == 8
    assert len(await desk.take()) == 12


async def test_what_is_not_confirmed_comes_back(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    entries = desk.entries(6)
    await desk.feed(entries)
    desk.advance(1)
    kept = await desk.take(2, token="kept")
    lost = await desk.take(2, token="lost")
    await desk.queue.confirm(["kept"])
    monkeypatch.setattr(queues, "UNCONFIRMED_SECONDS", 0.0)
    began = await desk.queue.begin(
        Feeding(slice=0, epoch=EPOCH, until=desk.now, paused=frozenset())
    )
    assert began is not None
    assert {*await desk.take()} == {*ids_of(entries)} - {*kept} >= {*lost}


async def test_nothing_is_known_before_it_is_fed_and_after_it_was_emptied(lone: Desk) -> None:
    entry = lone.entry()
    await lone.queue.put([entry])
    assert await lone.ask() == Taken([], None, is_complete=False)
    await lone.feed([entry])
    assert (await lone.queue.figures()) == ReadyFigures(entries=1, taken=0, fed=1, slices=1)
    lone.server.ask("FLUSHALL")
    assert not (await lone.ask()).is_complete
    await lone.feed([entry])
    assert await lone.take() == [entry.id]


@in_slices
async def test_feeding_drops_what_is_gone_and_corrects_what_changed(desk: Desk) -> None:
    gone, late, same = desk.entry(), desk.entry(), desk.entry()
    await desk.feed()
    await desk.queue.put([gone, late, same])
    moved = Entry(late.id, late.queue, late.priority, late.task_type, START + timedelta(seconds=9))
    missing = await desk.feed([moved, same])
    assert sum(each or 0 for each in missing) == 1
    assert {*await desk.take()} == {same.id}
    desk.advance(9)
    assert {*await desk.take()} == {late.id}


async def test_an_owner_of_before_changes_nothing(desk: Desk) -> None:
    entry = desk.entry()
    until = START + timedelta(seconds=30)
    old = await desk.queue.begin(
        Feeding(slice=0, epoch=EPOCH, until=until, paused=frozenset({"default"}))
    )
    assert old is not None
    assert await desk.feed([entry], epoch=EPOCH + 1) == [1]
    assert await old.fill([], {}) is None
    assert await desk.feed(epoch=EPOCH) == [None]
    assert await desk.take() == [entry.id]


async def test_beyond_a_limit_nothing_is_kept_and_nothing_is_promised(desk: Desk) -> None:
    entries = desk.entries(10)
    await desk.feed(entries)
    limit = entries[3].scheduled_at
    await desk.feed(entries[:4], {("default", 5): limit})
    await desk.queue.put(entries)
    desk.advance(1)
    taken = await desk.ask()
    assert [task_id for task_id, _ in taken.found] == ids_of(entries[:4])
    assert not taken.is_complete
    assert (await desk.ask(queues=("other",))).is_complete


async def test_those_who_submit_cannot_fill_it_without_end(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(queues, "MOST", 5)
    await desk.feed()
    await desk.queue.put(desk.entries(9))
    desk.advance(1)
    taken = await desk.ask()
    assert (len(taken.found), taken.is_complete) == (5, False)


async def test_what_is_due_late_is_left_to_feeding(desk: Desk) -> None:
    await desk.feed()
    await desk.queue.put([desk.entry(29.0), desk.entry(31.0)])
    assert (await desk.queue.figures()).entries == 1


@in_slices
async def test_nothing_of_a_paused_queue_is_taken(desk: Desk) -> None:
    entries = [desk.entry(queue=name) for name in ("a", "b")]
    await desk.feed(entries, paused=frozenset({"a"}))
    assert await desk.take() == [entries[1].id]
    await desk.queue.pause("a", is_paused=False)
    await desk.queue.pause("b", is_paused=True)
    assert await desk.take() == [entries[0].id]


async def test_branches_of_queues_are_not_kept(desk: Desk) -> None:
    await desk.feed()
    await desk.queue.put([desk.entry(queue="default@gpu")])
    assert (await desk.queue.figures()).entries == 0


@in_slices
async def test_removed_entries_are_not_taken(desk: Desk) -> None:
    entries = desk.entries(6)
    await desk.feed(entries)
    await desk.queue.remove(entries[:4])
    desk.advance(1)
    assert {*await desk.take()} == {*ids_of(entries[4:])}


async def test_half_of_a_batch_may_be_put_twice(desk: Desk, trap: Trap) -> None:
    entries = desk.entries(queues.BATCH + 1)
    await desk.feed()
    trap.breaking.add(HookPoint.PUSH_PARTIAL_BATCH)
    with pytest.raises(LostReplyError):
        await desk.queue.put(entries)
    trap.breaking.clear()
    await desk.queue.put(entries)
    desk.advance(1)
    assert await desk.take() == ids_of(entries)


async def test_slices_hold_what_belongs_to_them(valkey_server: ValkeyServer) -> None:
    link = RedisLink(RedisOptions(url=valkey_server.url), SystemClock())
    desk = Desk(RedisReadyQueue(link, "sliced", slices=2), valkey_server)
    entries = desk.entries(50)
    await desk.feed(entries)
    for number in range(2):
        held = valkey_server.ask("ZCARD", f"{{sliced:{number}}}:r:5 default mail")
        mine = [entry for entry in entries if partition_of(entry.id, 2) == number]
        assert int(held[1:]) == len(mine)
    await desk.queue.close()


async def test_scripts_that_the_server_forgot_are_sent_again(lone: Desk) -> None:
    await lone.feed([lone.entry()])
    lone.server.ask("SCRIPT", "FLUSH")
    assert len(await lone.take()) == 1


async def test_a_full_server_refuses_without_losing_anything(
    lone: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(links, "_AWAY_SECONDS", (0.0, 0.0))
    entries = lone.entries(20)
    await lone.feed(entries)
    lone.advance(1)
    lone.server.ask("CONFIG", "SET", "maxmemory", "1")
    for call in (lone.queue.put([lone.entry()]), lone.take(5)):
        with pytest.raises(ReadyQueueUnavailable, match="maxmemory"):
            await call
    lone.server.ask("CONFIG", "SET", "maxmemory", "0")
    assert await lone.take() == ids_of(entries)


async def test_a_server_that_is_away_costs_a_bounded_time_once(lone: Desk) -> None:
    clock = SystemClock()
    await lone.feed([lone.entry()])
    lone.server.pause()
    try:
        started = clock.monotonic()
        with pytest.raises(ReadyQueueUnavailable):
            await lone.take()
        first = clock.monotonic() - started
        with pytest.raises(ReadyQueueUnavailable, match="is away"):
            await lone.take()
        assert clock.monotonic() - started - first < 0.1
    finally:
        lone.server.resume()
    assert first < 2 * links.CALL_SECONDS


async def test_a_level_is_told_with_what_is_taken(desk: Desk) -> None:
    await desk.feed([desk.entry(priority=10)])
    assert [lane for _, lane in (await desk.ask()).found] == [Level.LOW]
