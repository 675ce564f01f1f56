from datetime import UTC, datetime
from uuid import UUID

import pytest

from conformance.scene import Scene
from mainspring.domain.status import TaskStatus

# The other of two databases would keep the months that are made here.
pytestmark = pytest.mark.one_store

DAY = 86400.0


@pytest.fixture
def needs_fresh_database() -> bool:
    return True


async def test_months_are_made_ahead_and_only_once(scene: Scene) -> None:
    scene.clock.set(datetime(2041, 5, 12, tzinfo=UTC))
    assert [name[-7:] for name in await scene.store.prepare_history(2)] == [
        "2041_05",
        "2041_06",
        "2041_07",
    ]
    assert await scene.store.prepare_history(2) == []
    scene.clock.set(datetime(2041, 6, 1, tzinfo=UTC))
    assert [name[-7:] for name in await scene.store.prepare_history(2)] == ["2041_08"]
    scene.clock.set(datetime(2041, 12, 31, 23, 59, 59, tzinfo=UTC))
    made = await scene.store.prepare_history(1)
    assert [name[-7:] for name in made] == ["2041_12", "2042_01"]


async def test_old_months_are_dropped_whole(scene: Scene) -> None:
    await scene.store.prepare_history(12)
    old = await finished(scene)
    scene.clock.set(datetime(2026, 6, 20, tzinfo=UTC))
    young = await finished(scene)
    scene.clock.set(datetime(2026, 7, 5, tzinfo=UTC))
    dropped = await scene.store.drop_history(30.0)
    assert any("2026" in name and "05" in name for name in dropped)
    assert await scene.ids_of() == {young}
    assert await scene.store.get(old) is None
    assert await scene.store.drop_history(30.0) == []


async def test_a_month_is_kept_while_one_of_its_tasks_finished_lately(scene: Scene) -> None:
    await scene.store.prepare_history(12)
    late = await scene.submit(delay_seconds=45 * DAY)
    early = await finished(scene)
    scene.clock.advance(45 * DAY)
    (lease,) = await scene.claim()
    assert lease.id == late
    await scene.complete(lease)
    scene.clock.advance(20 * DAY)
    await scene.store.drop_history(30.0)
    assert await scene.ids_of() == {late, early}
    scene.clock.advance(20 * DAY)
    await scene.store.drop_history(30.0)
    assert await scene.ids_of() == set()


async def test_the_month_that_runs_is_never_dropped(scene: Scene) -> None:
    await scene.store.prepare_history(2)
    await finished(scene)
    scene.clock.advance(2)
    await scene.store.drop_history(0.00001)
    assert await scene.store.prepare_history(2) == []


async def test_live_tasks_and_dead_letters_have_no_age(scene: Scene) -> None:
    await scene.store.prepare_history(12)
    failed = await scene.fail()
    waiting = await scene.submit(delay_seconds=900 * DAY)
    scene.clock.advance(500 * DAY)
    await scene.store.drop_history(30.0)
    assert await scene.ids_of() == {failed, waiting}


async def test_tasks_of_no_month_are_kept_and_dropped_by_their_own_age(scene: Scene) -> None:
    """Ids of a client whose clock is wrong, and months that nobody prepared."""
    await scene.store.prepare_history(0)
    scene.clock.set(datetime(2031, 3, 10, tzinfo=UTC))
    old = await finished(scene)
    scene.clock.advance(20 * DAY)
    young = await finished(scene)
    assert (await scene.get(old)).status is TaskStatus.COMPLETED
    assert await scene.ids_of(status=TaskStatus.COMPLETED) == {old, young}
    scene.clock.advance(15 * DAY)
    await scene.store.drop_history(30.0)
    assert await scene.ids_of() == {young}


async def finished(scene: Scene) -> UUID:
    lease = await scene.running()
    assert await scene.complete(lease)
    return lease.id
