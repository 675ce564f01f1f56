"""How limits of queues and groups travel over the wire."""

from typing import Annotated

import msgspec
from msgspec import UNSET, Meta, UnsetType

from mainspring.api.schemas import In
from mainspring.domain.limits import (
    BURST_MAX,
    CONCURRENCY_MAX,
    RATE_MAX,
    RATE_MIN,
    Limit,
    checked_limit,
)

RATE_PATTERN = r"^([1-9][0-9]{0,5}(\.[0-9]{1,6})?|0\.[0-9]{0,5}[1-9])/[smhd]$"
"""Of a rate that is text, as the OpenAPI document tells."""


class LimitIn(In, frozen=True):
    """What tasks may do together; what is not given is without limit. `rate` is a number of starts
    a second, or text such as `30/m`; `burst` is how many may start at once after a pause, by
    default what the rate allows in a second.
    """

    concurrency: Annotated[int, Meta(ge=1, le=CONCURRENCY_MAX)] | None = None
    rate: (
        Annotated[float, Meta(ge=RATE_MIN, le=RATE_MAX)]
        | Annotated[str, Meta(max_length=20)]
        | None
    ) = None
    burst: Annotated[int, Meta(ge=1, le=BURST_MAX)] | None = None

    def limit(self, prefix: str = "") -> Limit:
        """Return the limit, or raise `InvalidValue` for the field."""
        return checked_limit(self.concurrency, self.rate, self.burst, prefix)


class QueueLimitsIn(In, frozen=True):
    """The limit of a queue as a whole, and of each of its groups. What is not given stays, and
    null is no limit.
    """

    queue: LimitIn | UnsetType | None = UNSET
    group: LimitIn | UnsetType | None = UNSET


class GroupDroppedOut(msgspec.Struct, frozen=True, kw_only=True):
    """The group that has no limit of its own any more."""

    group_key: str


def limit_given(given: LimitIn | UnsetType | None, prefix: str) -> Limit | None:
    """Return the limit that was given; None when nothing was."""
    if isinstance(given, UnsetType):
        return None
    return Limit() if given is None else given.limit(prefix)
