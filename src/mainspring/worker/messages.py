"""What the agent and a runner say to each other. A frame carries a list of these."""

from enum import IntEnum
from typing import Final

import msgspec

from mainspring.domain.task import CommittedElsewhere, Ending, Lease


class StopReason(IntEnum):
    """Why an attempt is asked to stop."""

    CANCEL = 1
    """The task was cancelled."""

    LOST = 2
    """The lease is lost; whatever the handler still does is for nothing."""

    TIMEOUT = 3
    """The time of the attempt is over."""

    DRAIN = 4
    """The worker is shutting down and the attempt goes back uncharged."""

    UNLOCKED = 5
    """The lock of an exclusive task is lost and the attempt goes back uncharged."""


class Start(msgspec.Struct, frozen=True, array_like=True, tag=1):
    """Run this attempt. The agent names attempts by numbers that it never uses again."""

    number: int
    jitter: float
    """A random number in [0, 1) for the delay of a retry; only the agent draws."""

    lease: Lease
    certain_until: float
    """Until when the lease certainly lasts, by the monotonic clock, which all processes of a
    machine share. What comes later, because somebody stood still on the way, does not begin.
    """


class Stop(msgspec.Struct, frozen=True, array_like=True, tag=2):
    """Tell the attempt to stop; an answer follows only when it has ended."""

    number: int
    reason: StopReason


class Renewed(msgspec.Struct, frozen=True, array_like=True, tag=3):
    """The answer to `Renew`."""

    number: int
    is_held: bool


class Ready(msgspec.Struct, frozen=True, array_like=True, tag=1):
    """The runner has loaded the app and takes attempts."""

    pid: int


class Ended(msgspec.Struct, frozen=True, array_like=True, tag=2):
    """An attempt is over and nothing of it runs any more."""

    number: int
    ending: Ending | CommittedElsewhere


class Progressed(msgspec.Struct, frozen=True, array_like=True, tag=3):
    """A progress value of an attempt, as JSON text."""

    number: int
    progress: str


class Renew(msgspec.Struct, frozen=True, array_like=True, tag=4):
    """The handler asks for a renewal of its lease now."""

    number: int


class Committing(msgspec.Struct, frozen=True, array_like=True, tag=5):
    """The handler is about to complete its task in a transaction of its own, which locks the row:
    its renewals may have to wait and must not hold up those of other tasks.
    """

    number: int


class Overdue(msgspec.Struct, frozen=True, array_like=True, tag=6):
    """The time of an attempt is over and it was told so; the runner itself is responsive."""

    number: int


ToRunner = Start | Stop | Renewed
ToAgent = Ready | Ended | Progressed | Renew | Committing | Overdue

FRAME_BYTES_MAX: Final = 1 << 30
