"""What an operator may choose about a worker."""

import msgspec

from mainspring.domain.priority import Level


class WorkerOptions(msgspec.Struct, frozen=True, kw_only=True):
    """Choices for one worker; all times in seconds."""

    queues: tuple[str, ...] | None = None
    """Queues to take tasks from; None: all."""

    lanes: tuple[Level, ...] | None = None
    """Lanes to serve; None: all."""

    labels: tuple[str, ...] = ()
    """What the worker offers to tasks that need it, such as ``gpu`` or ``region=eu``."""

    processes: int = 1
    """Runner processes that async and plain handlers share."""

    concurrency: int = 100
    """Async handlers at a time in each runner process."""

    threads: int = 16
    """Plain `def` handlers at a time in each runner process."""

    solo_processes: int = 2
    """Tasks at a time that run alone in a process of their own."""

    lease_seconds: float = 60.0
    """How long a task stays owned after the last renewal."""

    heartbeat_seconds: float = 20.0
    """Time between two renewals; at most a third of the lease leaves room for two lost ones."""

    drain_seconds: float = 30.0
    """How long running tasks may go on after the worker was asked to stop."""

    grace_seconds: float = 5.0
    """How long a handler may go on after it was told to stop, before its process is replaced."""

    poll_seconds: float = 0.2
    """An idle worker looks for due tasks at least this often, hints or not."""

    prefetch_seconds: float = 0.1
    """Amount of work to hold ready beside what is running, by the pace of the last seconds."""

    claim_limit: int = 500
    """Most tasks to claim, and to settle, in one statement."""
