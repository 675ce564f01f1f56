"""The route of GraphQL: one operation a request, as JSON, by POST."""

from collections.abc import AsyncGenerator, Iterator
from typing import Annotated, Any, Final, Protocol

import msgspec

from mainspring.api.errors import RouteNotFound
from mainspring.api.http import Call, Response
from mainspring.api.routes import Route
from mainspring.api.schemas import In
from mainspring.api.streams import STREAM_TYPE
from mainspring.core.access import Principal
from mainspring.ports.access import Scope

QUERY_BYTES_MAX: Final = 64 * 1024

GRAPHQL_TYPE: Final = "application/graphql-response+json"
"""Whoever accepts this type is told by the status whether a query was run; in plain JSON the status
says 200 for whatever was understood as a request.
"""


class GraphqlIn(In, frozen=True, rename={"operation_name": "operationName"}):
    """One operation in GraphQL."""

    query: Annotated[str, msgspec.Meta(min_length=1, max_length=QUERY_BYTES_MAX)]
    variables: dict[str, Any] | None = None
    operation_name: Annotated[str, msgspec.Meta(max_length=200)] | None = None
    extensions: dict[str, Any] | None = None


class GraphqlOut(msgspec.Struct, frozen=True, kw_only=True):
    """What was asked for, and the errors of what could not be answered, each with its `code`."""

    data: dict[str, Any] | None = None
    errors: list[dict[str, Any]] = []


class Answers(Protocol):
    """What runs an operation."""

    async def answer(self, who: Principal, given: GraphqlIn) -> dict[str, Any]:
        """Return what a query is answered."""
        ...

    async def stream(
        self, who: Principal, given: GraphqlIn, request_id: str
    ) -> AsyncGenerator[bytes, None]:
        """Return the events of an operation."""
        ...


class GraphqlRoutes:
    """The handler of GraphQL."""

    def __init__(self, answers: Answers | None, why_not: str = "") -> None:
        self._answers = answers
        self._why_not = why_not
        """Why there is none, and what to do about it."""

    def routes(self) -> Iterator[Route]:
        """Yield the route."""
        yield Route(
            method="POST",
            path="/graphql",
            handler=self.operate,
            scope=Scope.READ,
            summary="Look at everything in one question, or follow a task, in GraphQL",
            tag="graphql",
            body=GraphqlIn,
            header_parameters=(
                (
                    "Accept",
                    {"type": "string"},
                    f"`{STREAM_TYPE}` for a subscription, in the protocol graphql-sse.",
                ),
            ),
            answers={200: GraphqlOut},
            problems=(404,),
        )

    async def operate(self, call: Call) -> Response:
        """Answer one operation."""
        if self._answers is None:
            raise RouteNotFound(self._why_not)
        accepted = call.headers.get(b"accept", b"").decode("latin-1").lower()
        if STREAM_TYPE in accepted:
            stream = await self._answers.stream(call.who, call.body, call.request_id)
            return Response(stream=stream, content_type=STREAM_TYPE)
        told = await self._answers.answer(call.who, call.body)
        if GRAPHQL_TYPE not in accepted:
            return Response(value=told)
        return Response(
            status=200 if "data" in told else 400, value=told, content_type=GRAPHQL_TYPE
        )
