"""The stream of a worker: what it says is done and answered, leases and orders to stop go out.

What it says is read in turn, so a worker that says too much waits, and nothing piles up.
"""

import asyncio
from collections.abc import Iterable
from typing import Any, Final

import grpc
from google.protobuf.message import Message

from mainspring.api._generated import workers_pb2
from mainspring.api.converting import converted
from mainspring.api.doorkeeper import Doorkeeper
from mainspring.api.errors import MalformedRequest, problem_of
from mainspring.api.lease_schemas import (
    ClaimIn,
    CompleteIn,
    FailIn,
    HeartbeatIn,
    ProgressIn,
    SlotsIn,
)
from mainspring.api.leases import completed, lease_out, not_completed, offer_of, renewal_out
from mainspring.api.limits import BODY_BYTES_MAX
from mainspring.api.rpc.gate import Context, Gate
from mainspring.api.rpc.messages import message_of, parse, values_of
from mainspring.api.rpc.methods import Method
from mainspring.api.rpc.reading import first_message
from mainspring.api.rpc.recording import Notes, Recorder
from mainspring.api.rpc.sending import Sender
from mainspring.core.following import Stay
from mainspring.core.json_encoding import encode
from mainspring.core.remote_work import Offer
from mainspring.core.work_stream import Ended, Given, Said, Stop, WorkStream
from mainspring.core.work_streams import WorkStreams
from mainspring.domain.errors import MainspringError, Unavailable
from mainspring.domain.task import LeaseRef

DRAIN_SECONDS: Final = 4.0
"""How long a server that is going to stop still takes the ends of attempts."""

_HEARTBEATS_PER_LEASE: Final = 3


class Working:
    """Serves the streams of workers."""

    def __init__(
        self, gate: Gate, streams: WorkStreams, doorkeeper: Doorkeeper, recorder: Recorder
    ) -> None:
        self._gate = gate
        self._streams = streams
        self._doorkeeper = doorkeeper
        self._recorder = recorder

    async def call(self, method: Method, context: Context) -> None:
        """Serve one worker until it leaves, or may not stay any more."""

        async def work(request_id: str) -> None:
            caller = await self._gate.admit(context, method.route, request_id)
            offer = await _hello(context)
            sender = Sender(context)
            note = self._recorder.of(caller)

            async def tell(said: Said) -> None:
                note.said(said)
                await sender.send(_message(said, offer.lease_seconds))

            with self._doorkeeper.stream(caller.who) as stay:
                async with self._streams.open(caller.who, offer, tell) as (stream, tasks):
                    await sender.send(_welcome(offer))
                    talk = _Talk(context, sender, stream, note, offer.worker_id)
                    await self._converse(talk, stay, tasks)

        await self._gate.answer(context, method.path, work)

    async def _converse(
        self, talk: "_Talk", stay: Stay, tasks: Iterable[asyncio.Task[None]]
    ) -> None:
        reading = asyncio.create_task(talk.read())
        over = asyncio.create_task(_until_over(stay))
        done = asyncio.create_task(talk.stream.is_done.wait())
        own: tuple[asyncio.Task[Any], ...] = (reading, over, done)
        try:
            await asyncio.wait({*own, *tasks}, return_when=asyncio.FIRST_COMPLETED)
            if over.done() and self._gate.is_stopping:
                await talk.close({reading, done, *tasks})
            serving: tuple[asyncio.Task[Any], ...] = (*tasks, reading)
            for task in serving:
                if task.done():
                    task.result()
            if over.done():
                raise self._gate.reason_to_end()
        finally:
            for task in own:
                task.cancel()
            await asyncio.gather(*own, return_exceptions=True)


class _Talk:
    """What is said on one stream."""

    def __init__(
        self, context: Context, sender: Sender, stream: WorkStream, note: Notes, worker_id: str
    ) -> None:
        self._context = context
        self._sender = sender
        self.stream = stream
        self._note = note
        self._worker_id = worker_id

    async def read(self) -> None:
        """Take what the worker says until it has nothing more to say."""
        while True:
            data = await self._context.read()
            if data is grpc.aio.EOF:
                # Nobody can end or renew anything on this stream any more.
                self.stream.leave()
                await self.stream.quiet.wait()
                return
            message = parse(workers_pb2.WorkerMessage, data, BODY_BYTES_MAX)
            kind = message.WhichOneof("message")
            if kind is None or kind == "hello":
                text = "a message of a worker is empty, unknown, or a second hello; say what is new"
                raise MalformedRequest(text)
            part = getattr(message, kind)
            try:
                await self._take(kind, values_of(part))
            except MainspringError as error:
                await self._sender.send(_refused(error, part))

    async def close(self, tasks: set[asyncio.Task[Any]]) -> None:
        """Say that the server is going to stop, and let the worker end what it can in time."""
        self.stream.leave()
        await self._sender.send(workers_pb2.ServerMessage(closing=workers_pb2.Closing()))
        await asyncio.wait(tasks, timeout=DRAIN_SECONDS, return_when=asyncio.FIRST_COMPLETED)

    async def _take(self, kind: str, given: dict[str, Any]) -> None:
        stream = self.stream
        named = {**given, "worker_id": self._worker_id}
        if kind == "heartbeat":
            await self._heartbeat(named)
        elif kind == "complete":
            done: CompleteIn = converted(named, CompleteIn)
            await stream.end(LeaseRef(done.task_id, done.fencing_token), completed(done))
        elif kind == "fail":
            failed: FailIn = converted(named, FailIn)
            await stream.end(LeaseRef(failed.task_id, failed.fencing_token), not_completed(failed))
        elif kind == "release":
            back: FailIn = converted({**named, "error": "released", "release": True}, FailIn)
            await stream.end(LeaseRef(back.task_id, back.fencing_token), not_completed(back))
        elif kind == "progress":
            so_far: ProgressIn = converted(given, ProgressIn)
            text = encode(so_far.progress, "progress")
            lease = LeaseRef(so_far.task_id, so_far.fencing_token)
            await stream.progress(lease, text)
            self._note.progressed(lease)
        elif kind == "slots":
            stream.resize(converted(given, SlotsIn).slots)
        else:
            stream.leave()

    async def _heartbeat(self, named: dict[str, Any]) -> None:
        leases: list[LeaseRef] = []
        if named.get("leases"):
            body: HeartbeatIn = converted(named, HeartbeatIn)
            leases = [LeaseRef(one.task_id, one.fencing_token) for one in body.leases]
        renewals = await self.stream.heartbeat(leases)
        self._note.renewed(renewals)
        told = message_of(
            workers_pb2.Renewed, {"leases": [renewal_out(renewal) for renewal in renewals]}
        )
        await self._sender.send(workers_pb2.ServerMessage(renewed=told))


async def _hello(context: Context) -> Offer:
    """Return what a worker says first."""
    message = await first_message(context, workers_pb2.WorkerMessage, BODY_BYTES_MAX)
    if message.WhichOneof("message") != "hello":
        raise MalformedRequest("the first message of a worker is hello; send that before others")
    given = values_of(message.hello)
    slots = given.pop("slots", 1)
    body: ClaimIn = converted({**given, "limit": slots}, ClaimIn)
    return offer_of(body)


async def _until_over(stay: Stay) -> None:
    while not stay.is_over:
        await stay.wake.wait()
        stay.wake.clear()


def _welcome(offer: Offer) -> workers_pb2.ServerMessage:
    seconds = offer.lease_seconds
    welcome = workers_pb2.Welcome(
        lease_seconds=seconds, heartbeat_seconds=seconds / _HEARTBEATS_PER_LEASE
    )
    return workers_pb2.ServerMessage(welcome=welcome)


def _message(said: Said, lease_seconds: float) -> workers_pb2.ServerMessage:
    if isinstance(said, Given):
        lease = message_of(workers_pb2.Lease, lease_out(said.lease, lease_seconds))
        return workers_pb2.ServerMessage(lease=lease)
    named = {"task_id": str(said.lease.id), "fencing_token": said.lease.fencing_token}
    if isinstance(said, Stop):
        stop = workers_pb2.Stop(**named, lost=said.is_lost)  # type: ignore[arg-type]
        return workers_pb2.ServerMessage(stop=stop)
    return _ended(said, named)


def _ended(said: Ended, named: dict[str, Any]) -> workers_pb2.ServerMessage:
    outcome = said.outcome
    if isinstance(outcome, Unavailable):
        refused = workers_pb2.Refused(**named)
        _explain(refused, outcome)
        return workers_pb2.ServerMessage(refused=refused)
    is_accepted = not isinstance(outcome, MainspringError)
    told = {**named, "accepted": is_accepted, "status": outcome if is_accepted else None}
    return workers_pb2.ServerMessage(ended=message_of(workers_pb2.Ended, told))


def _refused(error: MainspringError, about: Message) -> workers_pb2.ServerMessage:
    refused = workers_pb2.Refused()
    _explain(refused, error)
    if "task_id" in about.DESCRIPTOR.fields_by_name:
        refused.task_id = getattr(about, "task_id")  # noqa: B009 - not every message has one
        refused.fencing_token = getattr(about, "fencing_token")  # noqa: B009
    return workers_pb2.ServerMessage(refused=refused)


def _explain(refused: workers_pb2.Refused, error: MainspringError) -> None:
    problem = problem_of(error)
    refused.code = problem.code
    refused.message = problem.detail
    if problem.field:
        refused.field = problem.field
