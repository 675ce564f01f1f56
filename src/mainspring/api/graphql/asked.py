"""What resolvers know of a request."""

import msgspec
from graphql.language import DocumentNode

from mainspring.core.access import Principal
from mainspring.core.following import Stay
from mainspring.core.gateway import Gateway
from mainspring.core.schedule_gateway import ScheduleGateway


class Asked(msgspec.Struct, frozen=True, kw_only=True):
    """One operation: who asks, of what, and what was asked."""

    who: Principal
    gateway: Gateway
    schedules: ScheduleGateway
    document: DocumentNode
    stay: Stay
    """How long a subscription may go on."""
