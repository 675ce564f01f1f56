"""When a lease counts as held and when not, with a clock that moves by hand."""

import asyncio
from collections.abc import Sequence

import pytest
import structlog

from mainspring.adapters.memory.store import MemoryStore
from mainspring.adapters.system import SystemChance, SystemIds
from mainspring.core.registry import Mode, Registry
from mainspring.domain.errors import MainspringError, SetupError, StoreUnavailable
from mainspring.domain.task import LeaseRef, NewTask, Renewal
from mainspring.ports.store import ClaimRequest
from mainspring.worker.held import Held, Holdings
from mainspring.worker.leases import LeaseKeeper
from mainspring.worker.messages import StopReason
from mainspring.worker.options import WorkerOptions
from mainspring.worker.setting import Setting
from manual_clock import ManualClock


class Remote(MemoryStore):
    """A store that may be away, or slow to answer."""

    def __init__(self, clock: ManualClock) -> None:
        super().__init__(clock)
        self.clock = clock
        self.refusal: MainspringError | None = None
        self.may_answer_one = asyncio.Event()
        self.may_answer_one.set()
        self.asked: list[int] = []
        self.takes_seconds = 0.0

    async def heartbeat(self, leases: Sequence[LeaseRef], lease_seconds: float) -> list[Renewal]:
        if self.refusal is not None:
            raise self.refusal
        self.asked.append(len(leases))
        if len(leases) == 1:
            await self.may_answer_one.wait()
        answers = await super().heartbeat(leases, lease_seconds)
        self.clock.advance(self.takes_seconds)
        return answers


class Scene:
    def __init__(self) -> None:
        self.clock = ManualClock()
        self.store = Remote(self.clock)
        self.holdings: Holdings = {}
        self.stopped: list[tuple[int, StopReason]] = []
        setting = Setting(
            self.store,
            self.clock,
            SystemChance(),
            Registry(),
            "worker",
            WorkerOptions(lease_seconds=60.0, heartbeat_seconds=20.0),
            structlog.get_logger(),
        )
        self.keeper = LeaseKeeper(setting, self.holdings, self._stop)

    async def hold(self, count: int = 1) -> list[Held]:
        """Submit and claim tasks, as a worker does."""
        ids = SystemIds()
        await self.store.submit([NewTask(id=ids.task_id(), task_type="work") for _ in range(count)])
        request = ClaimRequest(
            worker_id="worker", limit=count, lease_seconds=60.0, task_types=("work",)
        )
        claim = await self.store.claim(request)
        now = self.clock.monotonic()
        for lease in claim.leases:
            held = Held(len(self.holdings) + 1, lease, Mode.ASYNC, now, now + 60.0)
            held.dispatched_at = now
            self.holdings[held.number] = held
        return list(self.holdings.values())

    def _stop(self, held: Held, reason: StopReason) -> None:
        self.stopped.append((held.number, reason))


@pytest.fixture
def scene() -> Scene:
    return Scene()


async def test_a_lease_counts_from_when_its_renewal_was_sent(scene: Scene) -> None:
    (held,) = await scene.hold()
    scene.clock.advance(20)
    scene.store.takes_seconds = 7.0
    assert await scene.keeper.renew_all()
    assert held.expires_at == 80.0


@pytest.mark.parametrize("refusal", [StoreUnavailable("away"), SetupError("no such password")])
async def test_a_failed_renewal_says_nothing_until_the_lease_is_over(
    scene: Scene, refusal: MainspringError
) -> None:
    await scene.hold()
    scene.store.refusal = refusal
    for _ in range(2):
        scene.clock.advance(20)
        assert not await scene.keeper.renew_all()
        scene.keeper.drop_expired(scene.clock.monotonic())
        assert scene.stopped == []
    scene.clock.advance(19.5)
    scene.keeper.drop_expired(scene.clock.monotonic())
    assert scene.stopped == [(1, StopReason.LOST)]


async def test_an_expired_lease_that_nobody_took_is_renewed(scene: Scene) -> None:
    (held,) = await scene.hold()
    scene.clock.advance(61)
    assert await scene.keeper.renew_all()
    assert held.expires_at == 121.0
    assert scene.stopped == []


async def test_a_lease_that_was_taken_away_is_lost(scene: Scene) -> None:
    await scene.hold(2)
    scene.clock.advance(61)
    await scene.store.rescue(1)
    await scene.keeper.renew_all()
    assert [reason for _, reason in scene.stopped] == [StopReason.LOST]


async def test_an_answer_after_the_end_raises_no_alarm(scene: Scene) -> None:
    gone, settling = await scene.hold(2)
    scene.clock.advance(61)
    await scene.store.rescue(2)
    batch = [gone, settling]
    answers = await scene.store.heartbeat([held.reference for held in batch], 60.0)
    del scene.holdings[gone.number]
    settling.is_settling = True
    scene.keeper._learn(batch, answers, 61.0)
    assert scene.stopped == []


async def test_a_cancellation_is_seen_by_watching_and_by_renewing(scene: Scene) -> None:
    (held,) = await scene.hold()
    await scene.store.cancel([held.lease.id])
    await scene.keeper.look(0.5)
    assert scene.stopped == []
    scene.clock.advance(0.5)
    await scene.keeper.look(0.5)
    assert scene.stopped == [(1, StopReason.CANCEL)]
    await scene.keeper.renew_all()
    assert len(scene.stopped) == 2


async def test_a_handler_that_completes_its_own_task_is_not_told_that_it_lost_it(
    scene: Scene,
) -> None:
    (held,) = await scene.hold()
    held.is_committing = True
    scene.clock.advance(61)
    await scene.store.rescue(1)
    scene.keeper._learn([held], await scene.store.heartbeat([held.reference], 60.0), 61.0)
    assert scene.stopped == []


async def test_handlers_that_lock_their_rows_take_one_connection_together(scene: Scene) -> None:
    held = await scene.hold(5)
    for each in held[:3]:
        each.is_committing = True
    scene.store.may_answer_one.clear()
    for _ in range(3):
        assert await scene.keeper.renew_all()
    assert sorted(scene.store.asked) == [1, 2, 2, 2]
    scene.store.may_answer_one.set()
    assert scene.keeper._apart is not None
    await scene.keeper._apart
    assert sorted(scene.store.asked) == [1, 1, 1, 2, 2, 2]


async def test_one_lease_is_renewed_on_request(scene: Scene) -> None:
    (held,) = await scene.hold()
    scene.clock.advance(10)
    assert await scene.keeper.renew_one(held)
    assert held.expires_at == 70.0
