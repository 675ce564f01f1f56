"""Runner processes as the agent sees them: started, spoken to, ended."""

import asyncio
import os
import signal
import socket
import subprocess
from collections.abc import Sequence
from typing import Any, Final, Protocol

from mainspring.core.registry import Mode
from mainspring.worker.channel import Channel
from mainspring.worker.held import Held
from mainspring.worker.messages import Ready, Start, Stop, ToAgent
from mainspring.worker.steps import NOBODY, StepPage, page_file

TERMINATE_SECONDS: Final = 0.5
"""Between asking a process group to end and ending it."""

_EXIT_SECONDS: Final = 1.0
_LOOK_SECONDS: Final = 0.01
_LAST_WORDS_SECONDS: Final = 0.5
"""How long the end of the stream is waited for when a process has ended: what it said last stands
before that, and only a copy of its socket in a process of another group can hold it up."""


class RunnerListener(Protocol):
    """Who is told about a runner."""

    def runner_ready(self, runner: "RunnerProcess") -> None:
        """The runner takes attempts from now on."""
        ...

    def runner_said(self, runner: "RunnerProcess", messages: list[ToAgent]) -> None:
        """The runner sent messages."""
        ...

    def runner_died(self, runner: "RunnerProcess") -> None:
        """The process has ended; told once."""
        ...


class RunnerProcess:
    """One runner: its process, its channel, and the attempts it has."""

    def __init__(
        self, command: Sequence[str], slots: dict[Mode, int], owner: RunnerListener
    ) -> None:
        self.held: dict[int, Held] = {}
        self.free = dict(slots)
        self.is_solo = Mode.PROCESS in slots
        self.is_ready = False
        self.has_been_ready = False
        self.is_dead = False
        self.was_killed = False
        """It ended because the agent wanted it to."""

        self.is_blocked = False
        """One handler has kept the event loop for a while; nothing new would start."""

        self.idle_since = 0.0
        self._has_ended = False
        self._is_cut = False
        self._buried = asyncio.Event()
        self._seen = NOBODY
        self._command = list(command)
        self._owner = owner
        self._channel: Channel | None = None
        self._socket: socket.socket
        self._process: subprocess.Popen[bytes]
        self._page: StepPage

    @property
    def pid(self) -> int:
        """Process id; also that of its process group."""
        return self._process.pid

    @property
    def status(self) -> str:
        """How the process ended, in words."""
        code = self._process.returncode
        if code is None:
            return "running"
        return f"exit status {code}" if code >= 0 else f"signal {signal.Signals(-code).name}"

    def spawn(self) -> None:
        """Start the process. Takes a few milliseconds; only what starts in the main thread can be
        tied to its parent's life by the kernel. Raises `OSError`.
        """
        self._socket, theirs = socket.socketpair()
        with theirs, page_file() as shared:
            self._page = StepPage(shared.fileno())
            self._process = subprocess.Popen(
                [*self._command, "--fd", str(theirs.fileno())],
                pass_fds=(theirs.fileno(),),
                stdin=subprocess.DEVNULL,
                # A group of its own: the terminal's Ctrl-C is for the agent alone, and a handler's
                # own child processes end with it.
                start_new_session=True,
            )
            socket.send_fds(self._socket, [b"page"], [shared.fileno()])

    async def connect(self) -> None:
        """Listen to the process, which says when it has loaded the app and is ready."""
        self._socket.setblocking(False)  # noqa: FBT003 - the name of the method says what is meant
        channel = Channel(ToAgent, self)
        loop = asyncio.get_running_loop()
        await loop.create_connection(lambda: channel, sock=self._socket)
        self._channel = channel

    def run(self, held: Held, jitter: float, now: float) -> None:
        """Start an attempt."""
        held.dispatched_at = now
        self.held[held.number] = held
        self.free[held.mode] -= 1
        self.tell(Start(held.number, jitter, held.lease, held.certain_until))

    def tell(self, message: Any) -> None:
        """Send a message."""
        assert self._channel is not None, "only a runner that is ready is spoken to"
        self._channel.send(message)

    def stop(self, held: Held) -> None:
        """Tell an attempt to stop, for the reason noted with it."""
        assert held.stopped_by is not None
        self.tell(Stop(held.number, held.stopped_by))

    def ended(self, number: int) -> Held | None:
        """Take an attempt that is over out of the books."""
        held = self.held.pop(number, None)
        if held is not None:
            self.free[held.mode] += 1
        return held

    def current(self) -> int:
        """Return the number of the attempt that is on the runner's event loop."""
        return self._page.current()

    def sample(self) -> None:
        """Look whose step is running; the same attempt twice in a row is blocking."""
        current = self._page.current()
        self.is_blocked = current != NOBODY and current == self._seen
        self._seen = current

    def has_begun(self, held: Held) -> bool:
        """Whether an attempt may have begun; False also when the process died before it did."""
        match held.mode:
            case Mode.ASYNC:
                return self._page.has_task_begun(held.number)
            case Mode.THREAD:
                return self._page.has_thread_begun(held.number)
            case _:
                return True

    @property
    def is_free(self) -> bool:
        """Whether an attempt would start at once if there is a slot for it."""
        return self.is_ready and not self.is_blocked

    def close(self) -> None:
        """Let the process end; for one that has nothing to do."""
        self.was_killed = True
        self.is_ready = False
        if self._channel is None:
            self._signal(signal.SIGKILL)
        else:
            self._channel.close()
            # Threads that handlers left behind may keep it.
            asyncio.get_running_loop().call_later(_EXIT_SECONDS, self.kill)

    def kill(self) -> None:
        """End the process and everything its handlers started, at once."""
        if self._has_ended:
            return
        self.was_killed = True
        self.is_ready = False
        self._signal(signal.SIGKILL)

    def terminate(self) -> None:
        """Ask the whole process group to end, and end it a moment later."""
        if not self.was_killed and not self._has_ended:
            self.was_killed = True
            self.is_ready = False
            self._signal(signal.SIGTERM)
            asyncio.get_running_loop().call_later(TERMINATE_SECONDS, self.kill)

    def look(self) -> None:
        """Notice that the process has ended, and take what it said last before it is buried."""
        if self._has_ended or self._process.poll() is None:
            return
        # What handlers started and left behind in the group goes with the runner.
        self._signal(signal.SIGKILL)
        self._has_ended = True
        self.is_ready = False
        if self._channel is None or self._is_cut:
            self._bury()
        else:
            asyncio.get_running_loop().call_later(_LAST_WORDS_SECONDS, self._bury)

    async def wait(self) -> None:
        """Wait until the process has ended, and end it when it takes too long."""
        try:
            await asyncio.to_thread(self._process.wait, _EXIT_SECONDS)
        except subprocess.TimeoutExpired:
            self.kill()
            await asyncio.to_thread(self._process.wait)
        self.look()
        await self._buried.wait()

    def received(self, messages: list[ToAgent]) -> None:
        """Called by the channel."""
        self.is_blocked = False
        if not self.is_ready and type(messages[0]) is Ready:
            self.is_ready = not self.was_killed
            self.has_been_ready = True
            self._owner.runner_ready(self)
            messages = messages[1:]
        if messages:
            self._owner.runner_said(self, messages)

    def disconnected(self) -> None:
        """Called by the channel: the process is ending, or has closed its side."""
        self.is_ready = False
        self._is_cut = True
        if not self.was_killed:
            # It cannot be spoken to any more, so whatever is left of it has to go.
            self._signal(signal.SIGKILL)
        self._await_end()

    def _await_end(self) -> None:
        self.look()
        if self._has_ended:
            self._bury()
        else:
            asyncio.get_running_loop().call_later(_LOOK_SECONDS, self._await_end)

    def _bury(self) -> None:
        if self.is_dead:
            return
        self.is_dead = True
        self._buried.set()
        if self._channel is None:
            self._socket.close()
        else:
            self._channel.close()
        self._owner.runner_died(self)
        self._page.close()

    def _signal(self, sign: signal.Signals) -> None:
        if self._has_ended:
            # The number may be another process's by now.
            return
        try:
            os.killpg(self._process.pid, sign)
        except (ProcessLookupError, PermissionError):
            return
