"""Setting the limits of queues and groups, and seeing them."""

import pytest

from conformance.scene import Scene
from mainspring.domain.errors import InvalidValue
from mainspring.domain.limits import Limit, QueueLimits
from mainspring.ports.store import Backlog, DeadLetterFilter

TWO = Limit(concurrency=2)
FAST = Limit(rate=100.0, burst=250)


async def test_a_queue_has_no_limits_until_someone_sets_them(scene: Scene) -> None:
    await scene.submit(queue="a")
    assert await scene.store.limits("a") == QueueLimits()
    assert await scene.store.limits("never") == QueueLimits()


async def test_each_limit_is_replaced_by_itself(scene: Scene) -> None:
    store = scene.store
    await store.set_limits("q", whole=Limit(concurrency=5, rate=10.0))
    await store.set_limits("q", group=TWO)
    assert await store.limits("q") == QueueLimits(queue=Limit(concurrency=5, rate=10.0), group=TWO)
    await store.set_limits("q", whole=FAST)
    assert await store.limits("q") == QueueLimits(queue=FAST, group=TWO)
    await store.set_limits("q", whole=Limit(), group=Limit())
    assert await store.limits("q") == QueueLimits()


async def test_a_group_has_limits_of_its_own_until_they_are_taken_back(scene: Scene) -> None:
    store = scene.store
    await store.set_limits("q", group=TWO)
    await store.set_group_limit("q", "acme", Limit(concurrency=9))
    await store.set_group_limit("q", "bolt", Limit())
    await store.set_group_limit("other", "acme", FAST)
    assert await store.limits("q") == QueueLimits(
        group=TWO, groups={"acme": Limit(concurrency=9), "bolt": Limit()}
    )
    await store.set_group_limit("q", "acme", FAST)
    await store.set_group_limit("q", "bolt", None)
    await store.set_group_limit("q", "never", None)
    assert await store.limits("q") == QueueLimits(group=TWO, groups={"acme": FAST})


async def test_a_queue_is_listed_with_its_limits(scene: Scene) -> None:
    await scene.submit(queue="b")
    await scene.submit(queue="a@gpu")
    await scene.store.set_limits("a", whole=FAST, group=TWO)
    await scene.store.set_group_limit("c", "acme", TWO)
    states = await scene.store.queues()
    assert [(one.queue, one.limit, one.group_limit, one.held) for one in states] == [
        ("a", FAST, TWO, 0),
        ("b", None, None, 0),
        ("c", None, None, 0),
    ]


async def test_keys_are_told_apart_byte_by_byte(scene: Scene) -> None:
    keys = ["acme", "Acme", "acm\u00e9", "a" * 255, "a b", "'; --", "\u65e5\u672c"]
    for place, key in enumerate(keys, start=1):
        await scene.store.set_group_limit("q", key, Limit(concurrency=place))
    found = (await scene.store.limits("q")).groups
    assert {key: limit.concurrency for key, limit in found.items()} == {
        key: place for place, key in enumerate(keys, start=1)
    }


async def test_only_so_many_groups_have_limits_of_their_own(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    for module in ("postgres.control", "memory.register"):
        monkeypatch.setattr(f"mainspring.adapters.{module}.GROUP_LIMITS_MAX", 2)
    await scene.store.set_group_limit("q", "one", TWO)
    await scene.store.set_group_limit("q", "two", TWO)
    with pytest.raises(InvalidValue, match="the most") as caught:
        await scene.store.set_group_limit("q", "three", TWO)
    assert caught.value.field == "group_key"
    await scene.store.set_group_limit("q", "one", FAST)
    await scene.store.set_group_limit("q", "two", None)
    await scene.store.set_group_limit("q", "three", TWO)
    assert set((await scene.store.limits("q")).groups) == {"one", "three"}


async def test_what_is_held_is_counted_and_does_not_age(scene: Scene) -> None:
    await scene.store.set_limits("default", group=Limit(concurrency=1))
    await scene.submit_many(3, group_key="acme")
    assert len(await scene.claim(5)) == 1
    scene.clock.advance(7)
    (queue,) = await scene.store.queues()
    assert (queue.ready, queue.held, queue.running) == (2, 2, 1)
    assert queue.oldest_ready_seconds == 7.0
    assert await scene.store.backlogs(100) == [Backlog("default", 5, 2, 0.0, 2)]
    assert await scene.store.backlogs(1) == [Backlog("default", 5, 1, 0.0, 1)]
    scene.clock.advance(1)
    await scene.submit(priority=5)
    scene.clock.advance(1)
    assert await scene.store.backlogs(100) == [Backlog("default", 5, 3, 1.0, 2)]


@pytest.mark.one_store
async def test_a_limit_that_is_taken_away_holds_nothing_back(scene: Scene) -> None:
    store = scene.store
    await store.set_limits("default", whole=Limit(rate=0.001), group=Limit(concurrency=1))
    await scene.submit_many(4, group_key="acme")
    await scene.submit_many(4)
    assert len(await scene.claim(10)) == 1
    assert await scene.claim(10) == []
    await store.set_limits("default", whole=Limit())
    assert [lease.group_key for lease in await scene.claim(10)] != []
    await store.set_group_limit("default", "acme", Limit(concurrency=3))
    await scene.claim(10)
    await store.set_limits("default", group=Limit())
    await store.set_group_limit("default", "acme", None)
    await scene.claim(10)
    assert (await store.queues())[0].running == 8


@pytest.mark.one_store
async def test_dead_letters_that_are_replayed_are_held_to_limits(scene: Scene) -> None:
    for _ in range(3):
        await scene.fail(group_key="acme")
        await scene.fail()
    await scene.store.set_limits("default", whole=Limit(concurrency=2), group=Limit(concurrency=1))
    assert len(await scene.store.replay(DeadLetterFilter(), 100)) == 6
    assert {lease.group_key for lease in await scene.claim(10)} == {"acme", ""}
    assert await scene.claim(10) == []
