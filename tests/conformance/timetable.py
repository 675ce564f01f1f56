"""Schedules on a scene, planned by hand."""

from typing import Any
from uuid import UUID

from conformance.scene import Scene
from mainspring.core.planning import planned, with_state
from mainspring.core.schedule_options import merged, spec_changes, template_of
from mainspring.domain.ids import make_id, random_bits_needed
from mainspring.domain.schedule import create, load_spec
from mainspring.ports.schedules import Committed, EndedRun, StoredSchedule, Tick


class Ids:
    """`ports.clock.IdSource` on the scene's clock and seed."""

    def __init__(self, scene: Scene) -> None:
        self.scene = scene

    def task_id(self, key: str | None = None) -> UUID:
        milliseconds = int(self.scene.clock.now().timestamp() * 1000)
        return make_id(milliseconds, self.scene.chance.getrandbits(random_bits_needed()), key)

    def worker_id(self) -> str:
        return "w"


class Timetable:
    """Schedules on a scene, planned by hand."""

    def __init__(self, scene: Scene) -> None:
        self.scene = scene
        self.store = scene.store
        self.ids = Ids(scene)

    async def make(self, name: str = "report", **options: Any) -> StoredSchedule:
        options = {"cron": "* * * * *", **options}
        now = self.scene.clock.now()
        schedule_id = self.ids.task_id(name)
        state = create(str(schedule_id), load_spec(merged({}, spec_changes(options))), now)
        blank = StoredSchedule(
            id=schedule_id, name=name, template=template_of("mail", None, options, None), spec=""
        )
        assert await self.store.create_schedule(with_state(blank, state, now))
        return await self.read(name)

    async def read(self, name: str = "report") -> StoredSchedule:
        stored = await self.store.get_schedule(name)
        assert stored is not None
        return stored

    async def plan(self, *ended: EndedRun) -> list[Committed]:
        due = await self.store.due_schedules(100)
        plans = [planned(one, due.now, self.ids, ended) for one in due.schedules]
        return await self.store.commit_plans(plans)

    async def minute(self, count: int = 1) -> list[Committed]:
        """Let so many minutes pass and plan."""
        self.scene.clock.advance(60.0 * count)
        return await self.plan()

    async def history(self, name: str = "report") -> list[Tick]:
        return await self.store.ticks((await self.read(name)).id, 100)
