"""Calls to etcd: over several endpoints, with TLS and a password where they are wanted."""

import asyncio
from collections.abc import AsyncIterator
from typing import Final, Generic, NamedTuple, TypeVar

import grpc
import grpc.aio
import msgspec
from google.protobuf.message import Message

from mainspring.adapters.etcd._generated import etcd_pb2 as pb
from mainspring.domain.errors import MainspringError, SetupError, Unavailable

ATTEMPT_SECONDS: Final = 1.0
"""Longest that one endpoint may take to answer."""

_NEEDS_LEADER: Final = ("hasleader", "true")
"""An endpoint that is cut off from the others says so instead of letting us wait."""

_IS_OLD: Final = ("revision of auth store is old", "revision in header is old")
"""Said when users or roles were changed after the token was given out: in words only, under codes
that mean something else as well."""

_WITHOUT_TOKEN: Final = (
    grpc.StatusCode.INVALID_ARGUMENT,
    grpc.StatusCode.PERMISSION_DENIED,
)
"""What an etcd answers to who is nobody, or the user that its certificate names."""

_CHANNEL: Final = (
    ("grpc.enable_retries", 0),
    ("grpc.use_local_subchannel_pool", 1),
    ("grpc.initial_reconnect_backoff_ms", 100),
    # Also the longest that one attempt to connect may take.
    ("grpc.min_reconnect_backoff_ms", 1000),
    ("grpc.max_reconnect_backoff_ms", 1000),
    # Less often than the servers allow by default.
    ("grpc.keepalive_time_ms", 10_000),
    ("grpc.keepalive_timeout_ms", 3000),
)

R = TypeVar("R", bound=Message)


class EtcdOptions(msgspec.Struct, frozen=True, kw_only=True):
    """How to connect."""

    endpoints: tuple[str, ...]
    """Each `host:port`."""

    is_secure: bool = False
    ca: bytes | None = None
    """Certificates to trust, as PEM; None: those of the system."""

    certificate: bytes | None = None
    """What to show a server that asks for it, as PEM; None: nothing."""

    key: bytes | None = None
    """The key of the certificate, as PEM."""

    user: str = ""
    password: str = ""


class Method(NamedTuple, Generic[R]):
    """One call of the API."""

    path: str
    answer: type[R]


RANGE: Final = Method("/etcdserverpb.KV/Range", pb.RangeResponse)
PUT: Final = Method("/etcdserverpb.KV/Put", pb.PutResponse)
TXN: Final = Method("/etcdserverpb.KV/Txn", pb.TxnResponse)
GRANT: Final = Method("/etcdserverpb.Lease/LeaseGrant", pb.LeaseGrantResponse)
REVOKE: Final = Method("/etcdserverpb.Lease/LeaseRevoke", pb.LeaseRevokeResponse)
STATUS: Final = Method("/etcdserverpb.Maintenance/Status", pb.StatusResponse)
_KEEP_ALIVE: Final = Method("/etcdserverpb.Lease/LeaseKeepAlive", pb.LeaseKeepAliveResponse)
_WATCH: Final = Method("/etcdserverpb.Watch/Watch", pb.WatchResponse)
_AUTHENTICATE: Final = Method("/etcdserverpb.Auth/Authenticate", pb.AuthenticateResponse)


class Status(NamedTuple):
    """What an endpoint says of itself."""

    version: str
    leader: int
    """The member that it follows; 0: none."""


class LeaseGone(Unavailable):
    """The lease that a request names is over."""


class EtcdClient:
    """Asks the endpoint that answered last, and the others when it does not.

    Raises `Unavailable` when none answers and `SetupError` when the user, the password or the
    rights are refused. Opening it connects to nothing.
    """

    def __init__(self, options: EtcdOptions) -> None:
        self._options = options
        self._channels: dict[int, grpc.aio.Channel] = {}
        self._current = 0
        self._token: str | None = None

    async def call(self, method: Method[R], request: Message) -> R:
        """Ask for one answer. What is asked may be asked twice."""
        failure: grpc.aio.AioRpcError | None = None
        for _ in range(len(self._options.endpoints) + 1):
            at = self._current
            try:
                return await self._ask(at, method, request)
            except grpc.aio.AioRpcError as error:
                failure = error
                if not self._is_token_refused(error):
                    _check_final(error)
                    self._give_up(at)
            except asyncio.CancelledError:
                self._give_up(at)
                raise
        raise self._unreachable(failure) from failure

    async def keep_alive(self, lease: int) -> int:
        """Renew a lease; returns the seconds it lasts, 0 when it is over."""
        answer = await self.call(_KEEP_ALIVE, pb.LeaseKeepAliveRequest(id=lease))
        return answer.ttl

    async def status(self, endpoint: int) -> Status:
        """Ask one endpoint, by its place in the options, how it is."""
        try:
            answer = await self._ask(endpoint, STATUS, pb.StatusRequest())
        except grpc.aio.AioRpcError as error:
            _check_final(error)
            raise self._unreachable(error, self._options.endpoints[endpoint]) from error
        return Status(answer.version, answer.leader)

    async def watch(self, key: bytes, range_end: bytes) -> AsyncIterator[pb.WatchResponse]:
        """Yield what happens to keys from now on: first that the watch has begun.

        Ends when the watch does, for whatever reason; what happens after that is missed.
        """
        at = self._current
        request = pb.WatchRequest(
            create_request=pb.WatchCreateRequest(key=key, range_end=range_end)
        )
        try:
            stub = self._channel(at).stream_stream(
                _WATCH.path,
                request_serializer=_encode,
                response_deserializer=_WATCH.answer.FromString,
            )
            stream = stub(metadata=await self._metadata(at))
            try:
                await stream.write(request)
                async for answer in stream:
                    yield answer
                    if answer.canceled:
                        break
            finally:
                stream.cancel()
        except (grpc.aio.AioRpcError, asyncio.InvalidStateError) as error:
            # A write on a stream that has ended is an error of the second kind.
            if not (isinstance(error, grpc.aio.AioRpcError) and self._is_token_refused(error)):
                self._avoid(at)

    async def close(self) -> None:
        """Close all connections. Safe to call twice."""
        channels, self._channels = self._channels, {}
        for channel in channels.values():
            await channel.close()

    async def _ask(self, at: int, method: Method[R], request: Message) -> R:
        metadata = await self._metadata(at)
        if method.path == _KEEP_ALIVE.path:
            return await self._ask_stream(at, method, request, metadata)
        return await self._ask_once(at, method, request, metadata)

    async def _ask_once(
        self, at: int, method: Method[R], request: Message, metadata: tuple[tuple[str, str], ...]
    ) -> R:
        stub = self._channel(at).unary_unary(
            method.path, request_serializer=_encode, response_deserializer=method.answer.FromString
        )
        answer: R = await stub(request, timeout=ATTEMPT_SECONDS, metadata=metadata)
        return answer

    async def _ask_stream(
        self, at: int, method: Method[R], request: Message, metadata: tuple[tuple[str, str], ...]
    ) -> R:
        """Ask a method that could go on, but for one answer only: nothing stays open."""
        stub = self._channel(at).stream_stream(
            method.path, request_serializer=_encode, response_deserializer=method.answer.FromString
        )
        stream = stub(iter((request,)), timeout=ATTEMPT_SECONDS, metadata=metadata)
        answers = [answer async for answer in stream]
        if not answers:
            raise Unavailable(f"etcd at {self._options.endpoints[at]} gave no answer")
        first: R = answers[0]
        return first

    async def _metadata(self, at: int) -> tuple[tuple[str, str], ...]:
        if not self._options.user:
            return (_NEEDS_LEADER,)
        if self._token is None:
            self._token = await self._authenticate(at)
        return (_NEEDS_LEADER, ("token", self._token)) if self._token else (_NEEDS_LEADER,)

    async def _authenticate(self, at: int) -> str:
        account = pb.AuthenticateRequest(name=self._options.user, password=self._options.password)
        try:
            answer = await self._ask_once(at, _AUTHENTICATE, account, (_NEEDS_LEADER,))
        except grpc.aio.AioRpcError as error:
            if error.code() is grpc.StatusCode.FAILED_PRECONDITION:
                # It asks nobody for a password, as one that was set up anew.
                return ""
            raise
        return answer.token

    def _is_token_refused(self, error: grpc.aio.AioRpcError) -> bool:
        """Tokens end after a while, when the server starts anew, and when its users are changed:
        then another one is due. So is a first one, when it asks for passwords by now.
        """
        said = error.details() or ""
        is_refused = (
            error.code() is grpc.StatusCode.UNAUTHENTICATED
            or (self._token is not None and any(text in said for text in _IS_OLD))
            or (self._token == "" and error.code() in _WITHOUT_TOKEN)
        )
        if is_refused:
            self._token = None
        return is_refused

    def _channel(self, at: int) -> grpc.aio.Channel:
        if at not in self._channels:
            target = self._options.endpoints[at]
            if self._options.is_secure:
                credentials = grpc.ssl_channel_credentials(
                    self._options.ca, self._options.key, self._options.certificate
                )
                channel = grpc.aio.secure_channel(target, credentials, options=_CHANNEL)
            else:
                channel = grpc.aio.insecure_channel(target, options=_CHANNEL)
            self._channels[at] = channel
        return self._channels[at]

    def _give_up(self, at: int) -> None:
        """Ask another endpoint, as somebody else: one that lost its data does not refuse a token of
        before, but waits until it has as much data again.
        """
        self._token = None
        self._avoid(at)

    def _avoid(self, at: int) -> None:
        if self._current == at:
            self._current = (at + 1) % len(self._options.endpoints)

    def _unreachable(
        self, failure: grpc.aio.AioRpcError | None, endpoint: str | None = None
    ) -> Unavailable:
        where = endpoint or ", ".join(self._options.endpoints)
        why = "" if failure is None else f" ({failure.code().name.lower()}: {failure.details()})"
        check = "check that it runs there and has a leader"
        if self._options.is_secure:
            check += ", and that each side believes the certificate of the other"
        return Unavailable(f"etcd at {where} cannot be reached{why}; {check}")


def _check_final(error: grpc.aio.AioRpcError) -> None:
    """Raise what no other endpoint would answer differently."""
    said = error.details()
    refusals: dict[grpc.StatusCode, MainspringError] = {
        grpc.StatusCode.NOT_FOUND: LeaseGone(f"etcd knows the lease no more: {said}"),
        grpc.StatusCode.PERMISSION_DENIED: SetupError(
            f"etcd refuses the rights that coordination needs ({said}); grant the user of etcd_url "
            "read and write rights on the keys below etcd_prefix"
        ),
        grpc.StatusCode.INVALID_ARGUMENT: SetupError(
            f"etcd refuses the request ({said}); check the user and password in etcd_url"
        ),
        grpc.StatusCode.UNIMPLEMENTED: SetupError(
            f"what answers at etcd_url is not etcd 3 ({said}); correct the URL"
        ),
    }
    if error.code() in refusals:
        raise refusals[error.code()] from error


def _encode(message: Message) -> bytes:
    return message.SerializeToString()
