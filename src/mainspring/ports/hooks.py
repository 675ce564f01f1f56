"""Named points at which tests stop, kill or delay the system. They do nothing in production.

The best faults sit between a commit and its reply, so those places have names.
"""

from enum import StrEnum
from typing import Protocol


class HookPoint(StrEnum):
    """The places that can be reached."""

    SUBMIT_AFTER_COMMIT = "submit.after_commit"
    CLAIM_AFTER_COMMIT = "claim.after_commit_before_reply"
    SETTLE_BEFORE_COMMIT = "settle.before_commit"
    SETTLE_AFTER_COMMIT = "settle.after_commit_before_reply"
    HEARTBEAT_AFTER_REPLY = "heartbeat.after_reply"
    CANCEL_AFTER_COMMIT = "cancel.after_commit_before_reply"
    RESCUE_AFTER_COMMIT = "rescue.after_commit"
    TICK_BEFORE_INSERT = "tick.before_insert"
    TICK_AFTER_INSERT = "tick.after_insert"
    TICK_AFTER_COMMIT = "tick.after_commit"
    ELECT_AFTER_KEY = "elect.after_key_before_epoch"
    ELECT_AFTER_EPOCH = "elect.after_epoch"
    RENEW_AFTER_REPLY = "renew.after_reply"
    PUSH_PARTIAL_BATCH = "push.partial_batch"
    MOVE_AFTER_RECORD = "move.after_record"
    MOVE_AFTER_BATCH = "move.after_batch"
    MOVE_AFTER_COPY = "move.after_copy"
    MOVE_AFTER_FREEZE = "move.after_freeze"
    MOVE_BEFORE_SWITCH = "move.before_switch"
    MOVE_AFTER_SWITCH = "move.after_switch"
    MOVE_AFTER_RELEASE = "move.after_release"
    MOVE_AFTER_MAPS = "move.after_maps"
    MOVE_AFTER_PURGE = "move.after_purge"
    LEASE_AFTER_POP = "lease.after_pop_before_commit"


class Hooks(Protocol):
    """Told when a point is reached; may wait, raise or end the process."""

    async def reach(self, point: HookPoint) -> None:
        """Called at the point, in the middle of the operation."""
        ...


class NoHooks:
    """Production: nothing happens."""

    async def reach(self, point: HookPoint) -> None:
        """Do nothing."""
