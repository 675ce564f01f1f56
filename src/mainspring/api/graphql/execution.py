"""Running one operation, and telling what became of it without telling what is inside.

Only this module and those it imports load the GraphQL library; wiring loads it if the setting says
so.
"""

import asyncio
from collections.abc import AsyncGenerator, Iterator, Mapping
from typing import Any, Final

import msgspec
import strawberry
import structlog
from graphql import GraphQLError, OperationDefinitionNode, OperationType, get_operation_ast
from graphql.language import DocumentNode
from strawberry.extensions import SchemaExtension
from strawberry.schema.config import StrawberryConfig
from strawberry.types import ExecutionContext, ExecutionResult
from strawberry.types.execution import PreExecutionError

from mainspring.api.doorkeeper import Doorkeeper
from mainspring.api.errors import RequestProblem, problem_of
from mainspring.api.graphql.asked import Asked
from mainspring.api.graphql.limits import check_limits, read_document
from mainspring.api.graphql.problems import Unreadable
from mainspring.api.graphql.queries import Query, Subscription
from mainspring.api.graphql.request import GraphqlIn
from mainspring.api.graphql.types import SCALARS
from mainspring.api.streams import STILL_HERE
from mainspring.core.access import Principal
from mainspring.core.following import KEEP_ALIVE_SECONDS, Stay
from mainspring.core.gateway import Gateway
from mainspring.core.schedule_gateway import ScheduleGateway
from mainspring.domain.errors import MainspringError, OutcomeUnknown, SetupError, Unavailable
from mainspring.domain.values import clip_text

ERRORS_MAX: Final = 20
_MESSAGE_BYTES_MAX: Final = 500
_COMPLETE: Final = b"event: complete\ndata: \n\n"


class _Document(SchemaExtension):
    """Hands the document over that was measured, so that it is not read twice."""

    def on_parse(self) -> Iterator[None]:
        self.execution_context.graphql_document = self.execution_context.context.document
        yield


class _Schema(strawberry.Schema):
    """A schema that leaves it to us what is logged."""

    def process_errors(
        self, errors: list[GraphQLError], execution_context: ExecutionContext | None = None
    ) -> None:
        del errors, execution_context


class Executor:
    """Answers GraphQL on the gateways."""

    def __init__(
        self, gateway: Gateway, schedules: ScheduleGateway, doorkeeper: Doorkeeper
    ) -> None:
        self._gateway = gateway
        self._schedules = schedules
        self._doorkeeper = doorkeeper
        self._log = structlog.get_logger("mainspring.api")
        self._schema = _Schema(
            query=Query,
            subscription=Subscription,
            config=StrawberryConfig(scalar_map=SCALARS),
            extensions=[_Document],
        )

    async def answer(self, who: Principal, given: GraphqlIn) -> dict[str, Any]:
        """Return what a query is answered, without `data` if it was not run at all; raises what
        concerns the request as a whole.
        """
        try:
            document, operation = _read(given)
            if operation.operation is OperationType.SUBSCRIPTION:
                message = "a subscription is a stream; ask for it with Accept: text/event-stream"
                raise Unreadable(message, field="query")
        except RequestProblem as problem:
            return {"errors": [_problem(problem, None)]}
        result = await self._schema.execute(
            given.query,
            variable_values=given.variables,
            operation_name=given.operation_name,
            context_value=self._asked(who, document, Stay()),
        )
        for error in result.errors or ():
            cause = _cause(error)
            if cause is not None and _concerns_all(cause):
                raise cause
        return _told(result)

    async def stream(
        self, who: Principal, given: GraphqlIn, request_id: str
    ) -> AsyncGenerator[bytes, None]:
        """Return the events of an operation, as the protocol graphql-sse has them."""
        try:
            document, _ = _read(given)
        except RequestProblem as problem:
            return _only({"errors": [_problem(problem, None)]})
        return self._events(who, given, document, request_id)

    async def _events(
        self, who: Principal, given: GraphqlIn, document: DocumentNode, request_id: str
    ) -> AsyncGenerator[bytes, None]:
        with self._doorkeeper.stream(who) as stay:
            results = await self._schema.stream(
                given.query,
                variable_values=given.variables,
                operation_name=given.operation_name,
                context_value=self._asked(who, document, stay),
            )
            following: asyncio.Future[Any] | None = None
            try:
                while True:
                    if following is None:
                        following = asyncio.ensure_future(anext(results, None))
                    await asyncio.wait([following], timeout=KEEP_ALIVE_SECONDS)
                    if not following.done():
                        yield STILL_HERE
                        continue
                    result, following = following.result(), None
                    if result is None:
                        break
                    yield _next(self._safe(result, request_id))
                yield _COMPLETE
            finally:
                if following is not None:
                    following.cancel()
                    await asyncio.wait([following])
                await results.aclose()

    def _safe(self, result: ExecutionResult, request_id: str) -> dict[str, Any]:
        try:
            return _told(result)
        except MainspringError:
            raise
        except Exception:  # noqa: BLE001 - the stream has begun, so only its end can tell
            self._log.exception("subscription failed", request_id=request_id)
            message = f"something went wrong; the log has it under {request_id}"
            return {"data": None, "errors": [_problem(MainspringError(message), None)]}

    def _asked(self, who: Principal, document: DocumentNode, stay: Stay) -> Asked:
        return Asked(
            who=who,
            gateway=self._gateway,
            schedules=self._schedules,
            document=document,
            stay=stay,
        )


def _read(given: GraphqlIn) -> tuple[DocumentNode, OperationDefinitionNode]:
    document = read_document(given.query)
    operation = get_operation_ast(document, given.operation_name)
    if operation is None:
        message = "the query has no such operation, or several; name one in operationName"
        raise Unreadable(message, field="operationName")
    check_limits(document, operation, given.variables or {})
    return document, operation


def _concerns_all(error: Exception) -> bool:
    """Whether the next field would have ended in the same way."""
    if not isinstance(error, MainspringError):
        return True
    return isinstance(error, Unavailable | SetupError | OutcomeUnknown)


def _cause(error: GraphQLError) -> Exception | None:
    """Return what was raised by us, or None for what GraphQL itself found."""
    cause: Any = error
    while isinstance(cause, GraphQLError):
        cause = cause.original_error
    return cause if isinstance(cause, Exception) else None


def _told(result: ExecutionResult) -> dict[str, Any]:
    """Return a result as it is sent; raises what nobody foresaw."""
    told: dict[str, Any] = {}
    if not isinstance(result, PreExecutionError):
        told["data"] = result.data
    if result.errors:
        told["errors"] = [_error(error) for error in result.errors[:ERRORS_MAX]]
    return told


def _error(error: GraphQLError) -> dict[str, Any]:
    cause = _cause(error)
    if isinstance(cause, MainspringError):
        return _problem(cause, error)
    if cause is not None:
        raise cause
    return _problem(Unreadable(clip_text(error.message, _MESSAGE_BYTES_MAX)), error)


def _problem(problem: MainspringError, error: GraphQLError | None) -> dict[str, Any]:
    shown = problem_of(problem)
    extensions = {"code": shown.code, "status": shown.status}
    if shown.field is not None:
        extensions["field"] = shown.field
    told: dict[str, Any] = {"message": shown.detail, "extensions": extensions}
    if error is not None and error.locations:
        told["locations"] = [{"line": at.line, "column": at.column} for at in error.locations]
    if error is not None and error.path:
        told["path"] = error.path
    return told


async def _only(told: Mapping[str, Any]) -> AsyncGenerator[bytes, None]:
    yield _next(told)
    yield _COMPLETE


def _next(told: Mapping[str, Any]) -> bytes:
    return b"event: next\ndata: %s\n\n" % msgspec.json.encode(told)
