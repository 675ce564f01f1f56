"""The built-in task types that call URLs: `http`, and the deliveries of webhooks.

The library that speaks HTTP is loaded with the first request, so workers that make none do not
pay for it.
"""

import asyncio
import importlib
import re
from collections.abc import Mapping
from typing import Any, Final, NamedTuple

import msgspec

from mainspring.core.context import TaskContext
from mainspring.core.definitions import define
from mainspring.core.registry import TaskDefinition
from mainspring.domain.errors import InvalidValue
from mainspring.domain.http_request import (
    HTTP_TYPE,
    Facts,
    HttpRequest,
    filled,
    is_redirect,
    is_retryable,
    is_success,
    parse_request,
    retry_after,
)
from mainspring.domain.namespaces import namespace_of, stored_queue
from mainspring.domain.outcomes import Fail
from mainspring.domain.signatures import SIGNATURE_HEADER, sign
from mainspring.domain.targets import Target, TargetRules, parse_target, redirected
from mainspring.domain.webhooks import DELIVERY_TYPE, instant_text
from mainspring.ports.clock import Clock
from mainspring.worker.exchange import Answer, Call, Client

_CLIENT_MODULE: Final = "mainspring.worker.http_client"
_KEPT_HEADERS: Final = (
    "content-type",
    "content-length",
    "content-encoding",
    "date",
    "etag",
    "last-modified",
    "location",
    "retry-after",
    "x-request-id",
)
_HEADER_LENGTH_MAX: Final = 500
_CONTROL: Final = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f]")
_SEE_OTHER: Final = 303
_MOVED: Final = frozenset({301, 302})


class StatusRefused(RuntimeError):
    """The server answered with a status that may be better the next time."""

    def __init__(self, message: str, status: int, after_seconds: float | None) -> None:
        super().__init__(message)
        self.status_code = status
        # The name and form in which errors of HTTP libraries carry it, rounded up.
        wanted = {} if after_seconds is None else {"Retry-After": str(-int(-after_seconds // 1))}
        self.headers: dict[str, str] = wanted


class HttpOptions(NamedTuple):
    """What the operator decides."""

    rules: TargetRules
    secrets: Mapping[str, str]
    """Secrets for signatures by name; those of a namespace as `NAMESPACE~NAME`."""


class Exchange(NamedTuple):
    """A request as it is sent, before redirects."""

    request: HttpRequest
    headers: tuple[tuple[str, str], ...]
    """Those that go to any server; those of the payload and the signature go to the first."""

    private: tuple[tuple[str, str], ...]
    body: bytes


class HttpCalls:
    """The handlers, and the connections they share."""

    def __init__(self, options: HttpOptions, clock: Clock) -> None:
        self._options = options
        self._clock = clock
        self._client: Client | None = None
        self._loop: asyncio.AbstractEventLoop | None = None

    async def run(self, ctx: TaskContext, **payload: Any) -> dict[str, Any]:
        """Make the request that the payload describes; the handler of `http`."""
        request = parse_request(payload)
        began = self._clock.monotonic()
        answer = await self._exchange(ctx, request)
        result: dict[str, Any] = {
            "status": answer.status,
            "headers": _kept(answer),
            "seconds": round(self._clock.monotonic() - began, 3),
            "body_bytes": len(answer.body),
            "body_is_cut": answer.is_cut,
        }
        if request.keep_body and answer.header("content-encoding") in (None, "identity"):
            result["body"] = _CONTROL.sub("\ufffd", answer.body.decode(errors="replace"))
        return result

    async def deliver(
        self, ctx: TaskContext, url: str, body: dict[str, Any], sign: str | None = None
    ) -> dict[str, Any]:
        """Tell a webhook of the end of a task; the handler of `mainspring.webhook`."""
        text = msgspec.json.encode(body).decode()
        headers = {"Content-Type": "application/json"}
        request = parse_request({"url": url, "headers": headers, "body": text, "sign": sign})
        answer = await self._exchange(ctx, request)
        return {"status": answer.status}

    async def close(self) -> None:
        """Close the connections. Runners need not: theirs end with the process."""
        if self._client is not None:
            await self._client.close()
            self._client = None

    async def _exchange(self, ctx: TaskContext, request: HttpRequest) -> Answer:
        exchange = self._prepared(ctx, request)
        target = parse_target(request.url)
        try:
            async with asyncio.timeout(request.timeout):
                target, answer = await self._follow(exchange, target)
        except TimeoutError:
            message = f"{target.shown} did not answer within {request.timeout:g} s"
            raise TimeoutError(message) from None
        self._judge(request, target, answer)
        return answer

    def _prepared(self, ctx: TaskContext, request: HttpRequest) -> Exchange:
        facts = Facts(
            task_id=str(ctx.task_id),
            attempt=ctx.attempt,
            scheduled_at=instant_text(ctx.scheduled_at),
            nominal_at="" if ctx.nominal_time is None else instant_text(ctx.nominal_time),
        )
        body = b"" if request.body is None else filled(request.body, facts).encode()
        private = request.headers
        given = {name.lower() for name, _ in private}
        ours = [
            ("User-Agent", "Mainspring"),
            ("Accept", "*/*"),
            ("Idempotency-Key", facts.task_id),
            ("Mainspring-Task-Id", facts.task_id),
            ("Mainspring-Attempt", str(ctx.attempt)),
            ("Mainspring-Fencing-Token", str(ctx.fencing_token)),
        ]
        if request.sign is not None:
            secret = self._secret(ctx.queue, request.sign)
            signature = sign(secret, int(self._clock.now().timestamp()), body)
            private = (*private, (SIGNATURE_HEADER, signature))
        headers = tuple(pair for pair in ours if pair[0].lower() not in given)
        return Exchange(request, headers, private, body)

    def _secret(self, queue: str, name: str) -> str:
        # A namespace cannot sign as another one does: no name that is given has the mark.
        full = stored_queue(namespace_of(queue), name)
        try:
            return self._options.secrets[full]
        except KeyError:
            message = (
                f"sign names the secret {name!r}, which this worker does not have; add "
                f"{full}=... to its setting signing_secrets"
            )
            raise InvalidValue(message, field="sign") from None

    async def _follow(self, exchange: Exchange, target: Target) -> tuple[Target, Answer]:
        """Make the request, and those that the answers send it on to."""
        request = exchange.request
        method, body, private = request.method, exchange.body, exchange.private
        client = self._connected()
        left = request.redirects
        while True:
            headers = (*exchange.headers, *private)
            call = Call(target, method, headers, body, request.max_response_bytes)
            answer = await client.call(call)
            location = answer.header("location")
            if left == 0 or location is None or not is_redirect(answer.status):
                return target, answer
            there = redirected(target, location)
            if there.origin != target.origin:
                # What is meant for one server is not shown to another.
                private = tuple(pair for pair in private if pair[0].lower() == "content-type")
            if answer.status == _SEE_OTHER or (answer.status in _MOVED and method == "POST"):
                method, body, private = "GET", b"", ()
            target = there
            left -= 1

    def _connected(self) -> Client:
        loop = asyncio.get_running_loop()
        if self._client is None or loop is not self._loop:
            module = importlib.import_module(_CLIENT_MODULE)
            client: Client = module.HttpClient(self._options.rules)
            self._client, self._loop = client, loop
        return self._client

    def _judge(self, request: HttpRequest, target: Target, answer: Answer) -> None:
        status = answer.status
        if is_success(status, request.success):
            return
        message = f"{target.shown} answered {status}"
        if is_retryable(status):
            after = retry_after(answer.header("retry-after"), self._clock.now())
            raise StatusRefused(message, status, after)
        if is_redirect(status):
            message += "; give the URL that it leads to, or allow redirects"
        raise Fail(message)


def http_definitions(calls: HttpCalls) -> tuple[TaskDefinition, ...]:
    """Return the task types, to be added to what an app has."""
    final = (InvalidValue,)
    return (
        define(HTTP_TYPE, calls.run, final_errors=final),
        define(DELIVERY_TYPE, calls.deliver, final_errors=final),
    )


def _kept(answer: Answer) -> dict[str, str]:
    kept = ((name, answer.header(name)) for name in _KEPT_HEADERS)
    return {name: value[:_HEADER_LENGTH_MAX] for name, value in kept if value is not None}
