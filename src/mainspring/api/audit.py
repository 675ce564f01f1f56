"""The audit of the own namespace: who did what, when and from where."""

from collections.abc import Iterator
from datetime import datetime
from typing import Annotated, Protocol

import msgspec
from msgspec import Meta

from mainspring.api.http import Call, Response
from mainspring.api.routes import Route
from mainspring.api.schemas import In, Instant, Limit
from mainspring.domain.errors import Forbidden
from mainspring.domain.values import parse_instant
from mainspring.ports.access import Access, AuditFilter, AuditRecord, Scope
from mainspring.ports.parts import Divided


class AuditQuery(In, frozen=True):
    """Which records to list, newest first."""

    actor: Annotated[str, Meta(min_length=1, max_length=300)] | None = None
    since: Instant | None = None
    cursor: Annotated[str, Meta(pattern="^[0-9]{1,18}$")] | None = None
    limit: Limit = 50


class AuditOut(msgspec.Struct, frozen=True, kw_only=True):
    """One record."""

    at: datetime
    actor: str
    """The id of a key, `oidc:` and the subject of a token, or `anonymous`."""

    action: str
    subject: str
    """What it was done to; of several things the first, or the first and the last."""

    count: int
    task_ids: tuple[str, ...]
    """Every task that was submitted; empty for other actions."""

    address: str
    request_id: str


class AuditPage(msgspec.Struct, frozen=True, kw_only=True):
    """A page of the audit."""

    records: list[AuditOut]
    cursor: str | None = None
    """Gives the next page; null on the last one."""

    partial: bool = False
    """A part of the store did not answer, so records of submissions that are in it are missing."""


class Records(Access, Divided, Protocol):
    """The audit, of which a part may be away."""


class AuditRoutes:
    """The handler of the audit."""

    def __init__(self, access: Records) -> None:
        self._access = access

    def routes(self) -> Iterator[Route]:
        """Yield the route of the audit."""
        yield Route(
            method="GET",
            path="/v1/audit",
            handler=self.page,
            scope=Scope.ADMIN,
            summary="List what was done in the namespace, newest first",
            tag="audit",
            query=AuditQuery,
            answers={200: AuditPage},
        )

    async def page(self, call: Call) -> Response:
        """List records."""
        if call.who.queues is not None:
            raise Forbidden("a key for some queues may not see what was done in the others")
        query: AuditQuery = call.query
        which = AuditFilter(
            namespace=call.who.namespace,
            actor=query.actor,
            since=None if query.since is None else parse_instant(query.since, "since"),
            before=None if query.cursor is None else int(query.cursor),
        )
        # One more than asked for tells whether there is a next page.
        found = await self._access.audit(query.limit + 1, which)
        page = found[: query.limit]
        cursor = str(page[-1][1].id) if len(found) > len(page) else None
        is_partial = bool(self._access.missing())
        records = [_out(*one) for one in page]
        return Response(value=AuditPage(records=records, cursor=cursor, partial=is_partial))


def _out(at: datetime, record: AuditRecord) -> AuditOut:
    return AuditOut(
        at=at,
        actor=record.actor,
        action=record.action,
        subject=record.subject,
        count=record.count,
        task_ids=tuple(map(str, record.task_ids)),
        address=record.address,
        request_id=record.request_id,
    )
