"""Limits as people see them, through the API and on the command line."""

import msgspec

from mainspring.domain.limits import Limit, QueueLimits


class GroupLimitView(msgspec.Struct, frozen=True, kw_only=True):
    """The limit of one group, in place of that of every group."""

    group_key: str
    limit: Limit


class QueueLimitsView(msgspec.Struct, frozen=True, kw_only=True):
    """The limits of a queue: of all its tasks together, of each group, and of single groups."""

    queue: Limit
    group: Limit
    groups: list[GroupLimitView]


def view_of(limits: QueueLimits) -> QueueLimitsView:
    """Return limits as they are shown, groups by their key."""
    groups = [
        GroupLimitView(group_key=key, limit=limit) for key, limit in sorted(limits.groups.items())
    ]
    return QueueLimitsView(queue=limits.queue, group=limits.group, groups=groups)


def limits_of(view: QueueLimitsView) -> QueueLimits:
    """Return the limits that were shown."""
    groups = {one.group_key: one.limit for one in view.groups}
    return QueueLimits(queue=view.queue, group=view.group, groups=groups)
