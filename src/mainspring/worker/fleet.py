"""All runners of a worker: which attempt goes where, and new processes for dead ones."""

import asyncio
import os
from collections import deque
from collections.abc import Iterator, Sequence
from contextlib import suppress
from typing import Final

from mainspring.core.registry import Mode
from mainspring.worker.held import Held
from mainspring.worker.orphans import FIRST_PID, bury_orphans
from mainspring.worker.processes import RunnerListener, RunnerProcess
from mainspring.worker.setting import Setting
from mainspring.worker.waiting import first_of

RESTART_SECONDS: Final = 0.1
RESTART_SECONDS_MAX: Final = 30.0
SOLO_IDLE_SECONDS: Final = 60.0

_GOLDEN_SECTION: Final = 0.6180339887498949


class Fleet:
    """Queues of attempts by where they run, and the runners that take from them."""

    def __init__(
        self, setting: Setting, runner_command: Sequence[str], owner: RunnerListener
    ) -> None:
        self._command = tuple(runner_command)
        self._options = setting.options
        self._owner = owner
        self._clock = setting.clock
        self._chance = setting.chance
        self._log = setting.log
        has_solo = any(definition.mode is Mode.PROCESS for definition in setting.registry)
        self._solo_spares = min(1, setting.options.solo_processes) if has_solo else 0
        self._queues: dict[Mode, deque[Held]] = {mode: deque() for mode in Mode}
        self._shared: list[RunnerProcess] = []
        self._solos: list[RunnerProcess] = []
        self._starting: set[asyncio.Task[None]] = set()
        self._solos_starting = 0
        self._is_first_process = os.getpid() == FIRST_PID
        self._pause = 0.0
        self._closing = asyncio.Event()

    async def open(self) -> None:
        """Start the runners that are always there."""
        for _ in range(self._options.processes):
            await self._start(is_solo=False)
        for _ in range(self._solo_spares):
            await self._start(is_solo=True)

    def runners(self) -> Iterator[RunnerProcess]:
        """Yield every runner that has not ended."""
        yield from tuple(self._shared)
        yield from tuple(self._solos)

    def room(self, mode: Mode) -> int:
        """Return how many more attempts could start at once; below 0 when some wait already."""
        waiting = len(self._queues[mode])
        if mode is Mode.PROCESS:
            busy = sum(1 for runner in self._solos if runner.held)
            return self._options.solo_processes - busy - waiting
        return sum(runner.free[mode] for runner in self._shared if runner.is_free) - waiting

    def is_free(self) -> bool:
        """Whether a shared runner takes attempts now, slots aside."""
        return any(runner.is_free for runner in self._shared)

    def capacity(self, mode: Mode) -> int:
        """Return how many attempts can run at a time."""
        options = self._options
        if mode is Mode.PROCESS:
            return options.solo_processes
        each = options.concurrency if mode is Mode.ASYNC else options.threads
        return each * options.processes

    def add(self, held: Held) -> None:
        """Let an attempt start when its turn comes; `pump` starts what can be."""
        self._queues[held.mode].append(held)

    def waiting(self) -> Iterator[Held]:
        """Yield the attempts that wait for a slot."""
        for queue in self._queues.values():
            yield from queue

    def waiting_count(self) -> int:
        """Return how many attempts wait for a slot."""
        return sum(map(len, self._queues.values()))

    def busy_count(self) -> int:
        """Return how many attempts are in runners."""
        return sum(len(runner.held) for runner in self.runners())

    def stop(self, held: Held) -> None:
        """Tell a running attempt to stop, for the reason noted with it."""
        for runner in self.runners():
            if held.number in runner.held:
                runner.stop(held)

    def remove(self, held: Held) -> None:
        """Let a waiting attempt not start; one that waits for its lock yet is not known here."""
        with suppress(ValueError):
            self._queues[held.mode].remove(held)

    def take_waiting(self, before: float | None = None) -> list[Held]:
        """Take back the attempts that wait since before a time, or all."""
        taken: list[Held] = []
        for queue in self._queues.values():
            while queue and (before is None or queue[0].claimed_at < before):
                taken.append(queue.popleft())
        return taken

    def pump(self) -> None:
        """Start as many waiting attempts as there are free slots, on the least busy runners."""
        if not any(self._queues.values()):
            return
        now = self._clock.monotonic()
        draw = self._chance.random()
        for mode in (Mode.ASYNC, Mode.THREAD):
            queue = self._queues[mode]
            while queue:
                runner = self._freest(mode)
                if runner is None:
                    break
                held = queue.popleft()
                runner.run(held, _spread(draw, held.number), now)
        self._pump_solo(now, draw)

    def _freest(self, mode: Mode) -> RunnerProcess | None:
        best, most = None, 0
        for runner in self._shared:
            if runner.free[mode] > most and runner.is_free:
                best, most = runner, runner.free[mode]
        return best

    def _pump_solo(self, now: float, draw: float) -> None:
        queue = self._queues[Mode.PROCESS]
        while queue:
            runner = next((each for each in self._solos if each.is_ready and not each.held), None)
            if runner is None:
                break
            held = queue.popleft()
            runner.run(held, _spread(draw, held.number), now)
        coming = self._solos_starting + sum(1 for each in self._solos if not each.is_ready)
        room = self._options.solo_processes - len(self._solos) - self._solos_starting
        for _ in range(min(len(queue) - coming, room)):
            self._start_later(is_solo=True)

    def look(self) -> None:
        """Notice processes that have ended or are blocked, and let idle solo runners go."""
        now = self._clock.monotonic()
        for runner in self.runners():
            runner.look()
        if self._is_first_process:
            bury_orphans({runner.pid for runner in self.runners()})
        for runner in self._shared:
            runner.sample()
        idle = [runner for runner in self._solos if runner.is_ready and not runner.held]
        for runner in idle[self._solo_spares :]:
            if now - runner.idle_since > SOLO_IDLE_SECONDS:
                runner.close()

    def bury(self, runner: RunnerProcess) -> None:
        """Forget a runner that has ended, and start another in its place.

        One that could not even load the app is started again after longer and longer pauses.
        """
        fleet = self._solos if runner.is_solo else self._shared
        if runner in fleet:
            fleet.remove(runner)
        if runner.has_been_ready or runner.was_killed:
            self._pause = 0.0
        else:
            self._pause = min(max(self._pause * 2, RESTART_SECONDS), RESTART_SECONDS_MAX)
        if not runner.is_solo:
            self._start_later(is_solo=False)
        elif len(self._solos) + self._solos_starting < self._solo_spares:
            self._start_later(is_solo=True)

    async def close(self) -> None:
        """End all runners: those with nothing to do by themselves, the others at once."""
        self._closing.set()
        await asyncio.gather(*self._starting)
        runners = list(self.runners())
        for runner in runners:
            if runner.held:
                runner.kill()
            else:
                runner.close()
        await asyncio.gather(*(runner.wait() for runner in runners))

    def _start_later(self, *, is_solo: bool) -> None:
        if self._closing.is_set():
            return
        start = asyncio.get_running_loop().create_task(self._restart(is_solo=is_solo))
        self._solos_starting += is_solo
        self._starting.add(start)
        start.add_done_callback(self._starting.discard)

    async def _restart(self, *, is_solo: bool) -> None:
        await first_of(self._pause, self._closing)
        while not self._closing.is_set():
            try:
                await self._start(is_solo=is_solo)
            except OSError as error:
                self._log.error("a runner process could not be started", error=str(error))
                await first_of(RESTART_SECONDS_MAX, self._closing)
            else:
                self._solos_starting -= is_solo
                return

    async def _start(self, *, is_solo: bool) -> None:
        options = self._options
        slots = (
            {Mode.PROCESS: 1}
            if is_solo
            else {Mode.ASYNC: options.concurrency, Mode.THREAD: options.threads}
        )
        runner = RunnerProcess(self._command, slots, self._owner)
        runner.spawn()
        (self._solos if is_solo else self._shared).append(runner)
        await runner.connect()


def _spread(draw: float, number: int) -> float:
    """Turn one draw into a number in [0, 1) for each attempt, far from those of its neighbours.

    Multiples of the golden section fill the unit evenly however many there are of them.
    """
    return (draw + number * _GOLDEN_SECTION) % 1.0
