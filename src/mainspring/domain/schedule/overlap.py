"""Whether a nominal time may run while earlier runs of its schedule are unfinished."""

from dataclasses import dataclass
from enum import Enum, auto

from mainspring.domain.schedule.policy import OverlapPolicy, OverlapRule


class Decision(Enum):
    """What becomes of one due nominal time."""

    START = auto()
    START_AND_CANCEL = auto()
    WAIT = auto()
    SKIP = auto()
    SKIP_FULL = auto()


@dataclass(frozen=True, slots=True)
class Occupancy:
    """The runs of a schedule that are unfinished, and the nominal times that wait for them."""

    unfinished: int
    waiting: int

    def after(self, decision: Decision) -> "Occupancy":
        """The occupancy once ``decision`` is carried out."""
        if decision is Decision.START:
            return Occupancy(self.unfinished + 1, self.waiting)
        if decision is Decision.START_AND_CANCEL:
            return Occupancy(1, self.waiting)
        if decision is Decision.WAIT:
            return Occupancy(self.unfinished, self.waiting + 1)
        return self


def decide(policy: OverlapPolicy, now: Occupancy) -> Decision:
    """What the overlap policy says about one more nominal time."""
    if policy.rule is OverlapRule.ALLOW:
        free = policy.limit is None or now.unfinished < policy.limit
        return Decision.START if free else Decision.SKIP
    if now.unfinished == 0 and now.waiting == 0:
        return Decision.START
    if policy.rule is OverlapRule.CANCEL_PREVIOUS:
        return Decision.START_AND_CANCEL
    if policy.rule is OverlapRule.SKIP:
        return Decision.SKIP
    return Decision.WAIT if now.waiting < policy.buffer_size else Decision.SKIP_FULL
