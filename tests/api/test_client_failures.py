"""The Python client when something is in the way: it repeats what it may, and says what it may not.

The servers are scripts here: each connection gets one answer.
"""

import asyncio
import threading
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from uuid import UUID

import pytest

from api.certificates import Authority
from api.conftest import Api, started
from mainspring import Client
from mainspring.adapters.system import SystemClock
from mainspring.client import SyncClient
from mainspring.client.exchange import Reply, Trial, get, send
from mainspring.client.installation import ApiSubmissions, client_of
from mainspring.config import Settings
from mainspring.domain.errors import (
    InvalidConfiguration,
    InvalidValue,
    OutcomeUnknown,
    Overloaded,
    QuotaExceeded,
    Refused,
    StoreUnavailable,
)
from mainspring.domain.task import NewTask, Submission
from manual_clock import ManualClock

TASK = "01900000-0000-7000-8000-000000000000"
BUSY = b'{"title":"x","status":503,"code":"overloaded","detail":"too much"}'


def answer(status: int, body: bytes = b"{}", *headers: str) -> bytes:
    head = [f"HTTP/1.1 {status} x", f"Content-Length: {len(body)}", "Connection: close", *headers]
    return "\r\n".join([*head, "", ""]).encode() + body


class Script:
    """A server that gives each connection the next answer; none closes it without one."""

    def __init__(self, *answers: bytes | None) -> None:
        self.answers = list(answers)
        self.asked: list[bytes] = []
        self.url = ""

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = await reader.readuntil(b"\r\n\r\n")
        self.asked.append(head)
        text = self.answers.pop(0)
        if text is not None:
            writer.write(text)
            await writer.drain()
        writer.close()


@asynccontextmanager
async def running(script: Script) -> AsyncIterator[Script]:
    server = await asyncio.start_server(script.serve, "127.0.0.1", 0)
    script.url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    try:
        yield script
    finally:
        server.close()


Verb = Callable[[Client], Awaitable[object]]


async def both(script: Script, async_verb: Verb, sync_verb: Callable[[SyncClient], object]) -> None:
    """Let each client do it, with a script of its own."""
    answers = list(script.answers)
    async with running(script), Client(script.url) as client:
        await async_verb(client)
    again = Script(*answers)
    async with running(again):
        with SyncClient(again.url) as blocking:
            await asyncio.to_thread(sync_verb, blocking)
    assert len(again.asked) == len(script.asked)


async def test_nobody_there_is_an_error_of_its_own() -> None:
    async with Client("http://127.0.0.1:9", timeout=1) as nobody:
        with pytest.raises(StoreUnavailable, match="cannot be reached"):
            await nobody.get(TASK)
        with pytest.raises(StoreUnavailable, match="cannot be reached"):
            await asyncio.to_thread(nobody.sync.cancel, TASK)
    for address in ("ftp://x", "http://", "http://a:b", "x"):
        with pytest.raises(InvalidValue):
            Client(address)
    with pytest.raises(InvalidValue):
        Client("http://a", "line\nbreak")


async def test_what_may_be_repeated_is_repeated() -> None:
    script = Script(None, answer(503, BUSY, "Retry-After: 0"), answer(200, b'{"task_id":"x"}'))
    await both(script, lambda client: client.get(TASK), lambda client: client.get(TASK))


async def test_what_may_not_is_of_unknown_outcome() -> None:
    async def cancelled(client: Client) -> None:
        with pytest.raises(OutcomeUnknown, match="look before"):
            await client.cancel(TASK)

    def cancelled_blocking(client: SyncClient) -> None:
        with pytest.raises(OutcomeUnknown, match="look before"):
            client.cancel(TASK)

    await both(Script(None), cancelled, cancelled_blocking)


async def test_a_task_is_sent_again_under_the_same_key() -> None:
    script = Script(None, None, answer(201, b'{"task_id":"x"}'))
    async with running(script), Client(script.url) as client:
        await client.submit("t")
    assert len(script.asked) == 3


async def test_what_is_turned_away_of_a_batch_is_sent_again_alone() -> None:
    stored = f'{{"status":201,"task_id":"{TASK}"}}'
    conflict = '{"status":409,"code":"idempotency_key_conflict","detail":"x","field":"key"}'
    busy = '{"status":503,"code":"overloaded","detail":"too much"}'
    bad = '{"status":422,"code":"invalid_value","detail":"no","field":"queue"}'
    rounds = [[stored, busy, conflict, bad], [stored]]
    bodies = ['{{"results":[{}]}}'.format(",".join(results)) for results in rounds]
    script = Script(*(answer(207, body.encode()) for body in bodies))
    tasks = [NewTask(id=UUID(int=n), task_type="t") for n in range(4)]
    async with running(script), Client(script.url) as client:
        answers = await ApiSubmissions(client).attempt_many(tasks)
    assert answers[:3] == [
        Submission(UUID(TASK)),
        Submission(UUID(TASK)),
        Submission(UUID(int=2), is_new=False, conflict=True),
    ]
    assert isinstance(answers[3], InvalidValue)


async def test_a_quota_is_no_reason_to_wait_for_ever() -> None:
    body = BUSY.replace(b"overloaded", b"quota_exceeded")
    script = Script(answer(429, body, "Retry-After: 90"))
    async with running(script), Client(script.url, timeout=5) as client:
        with pytest.raises(QuotaExceeded) as caught:
            await client.submit("t")
    assert caught.value.retry_after == 90


async def test_strange_answers_are_errors(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("mainspring.client.exchange.TRIES", 1)
    script = Script(answer(404, b"<html>"), answer(200, b"<html>"))
    async with running(script), Client(script.url) as client:
        with pytest.raises(Refused, match="404"):
            await client.get(TASK)
        with pytest.raises(StoreUnavailable, match="as an API of Mainspring would not"):
            await client.get(TASK)


async def test_an_answer_that_never_ends_takes_no_longer_than_the_time_out() -> None:
    clock = SystemClock()

    async def drip(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 200 x\r\nContent-Length: 1000\r\n\r\n")
        try:
            with suppress(ConnectionError):
                while True:
                    writer.write(b" ")
                    await writer.drain()
                    await clock.sleep(0.05)
        finally:
            writer.close()

    server = await asyncio.start_server(drip, "127.0.0.1", 0)
    url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    began = time.monotonic()
    try:
        async with Client(url, timeout=0.4) as client:
            with pytest.raises(StoreUnavailable):
                await client.get(TASK)
            with pytest.raises(StoreUnavailable):
                await asyncio.to_thread(client.sync.get, TASK)
    finally:
        server.close()
    # All of it would take 50 s.
    assert time.monotonic() - began < 4


async def test_a_wait_goes_on_when_its_stream_breaks() -> None:
    event = (
        b"HTTP/1.1 200 x\r\nContent-Type: text/event-stream\r\nConnection: close\r\n\r\n"
        b'id: 7-0\nevent: pending\ndata: {"task_id":"x"}\n\n'
    )
    done = answer(200, b'{"status":"completed"}')
    script = Script(event, answer(200, b'{"status":"running"}'), event, done)
    await both(script, lambda client: client.wait(TASK), lambda client: client.wait(TASK))
    assert b"last-event-id: 7-0" in script.asked[2].lower()


async def test_where_no_stream_gets_through_it_looks_now_and_then() -> None:
    """A proxy that holds a stream back looks like a stream that ends without a word."""
    silent = b"HTTP/1.1 200 x\r\nConnection: close\r\n\r\n"
    looks = [answer(200, b'{"status":"running"}')] * 2
    script = Script(silent, *looks, answer(200, b'{"status":"completed"}'))
    await both(script, lambda client: client.wait(TASK), lambda client: client.wait(TASK))
    assert sum(b"/events " in head for head in script.asked) == 1


async def test_closing_ends_the_pauses_of_other_threads() -> None:
    blocking = SyncClient("http://127.0.0.1:9", timeout=60)
    failures: list[Exception] = []

    def look() -> None:
        try:
            blocking.get(TASK)
        except StoreUnavailable as error:
            failures.append(error)

    thread = threading.Thread(target=look)
    thread.start()
    blocking.close()
    await asyncio.to_thread(thread.join, 5)
    assert len(failures) == 1


async def test_a_lost_answer_makes_no_second_task(api: Api) -> None:
    """The first connection is cut after the request was passed on."""
    host, port = api.url.removeprefix("http://").split(":")
    lost = 0

    async def relay(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal lost
        far_reader, far_writer = await asyncio.open_connection(host, int(port))
        far_writer.write(await reader.read(65536))
        answered = await far_reader.read(65536)
        if lost:
            writer.write(answered)
            await writer.drain()
        lost += 1
        writer.close()
        far_writer.close()

    server = await asyncio.start_server(relay, "127.0.0.1", 0)
    try:
        relayed = server.sockets[0].getsockname()[1]
        async with Client(f"http://127.0.0.1:{relayed}", await api.key()) as unlucky:
            task = await unlucky.submit("t")
    finally:
        server.close()
    assert lost >= 2
    assert task["is_new"] is False
    async with Client(api.url, await api.key()) as lucky:
        assert len([one async for one in lucky.tasks()]) == 1


async def test_an_api_with_tls_is_reached_by_who_believes_its_authority(
    database: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    authority = Authority(tmp_path, "ours")
    certificate, key = map(str, authority.server())
    async with started(database, tls_cert_file=certificate, tls_key_file=key) as api:
        url = api.url.replace("http:", "https:")
        secret = await api.key()
        with monkeypatch.context() as patched:
            patched.setattr("mainspring.client.exchange.TRIES", 1)
            async with Client(url, secret) as stranger:
                with pytest.raises(StoreUnavailable, match="certificate verify failed"):
                    await stranger.queues()
        async with Client(url, secret, tls=authority.client(None)) as friend:
            assert await friend.queues() == []
            assert await asyncio.to_thread(friend.sync.queues) == []
        named = Settings(api_url=url, api_key=secret, api_ca_file=str(authority.file))
        async with client_of(named, 5) as client:
            assert await client.workers() == []
    with pytest.raises(InvalidConfiguration, match="api_ca_file 'nothing' cannot be read"):
        client_of(Settings(api_url=url, api_ca_file="nothing"), 5)


class TestTrial:
    """What is decided without any connection."""

    def trial(self, *, repeatable: bool = True, patient: bool = False) -> Trial[dict[str, object]]:
        request = get("/x") if repeatable else send("POST", "/x", {})
        return Trial(request, "host", ManualClock(), 30.0, patient=patient)

    def test_pauses_grow_and_end(self) -> None:
        trial = self.trial()
        pauses = [trial.pause_after(OSError("down")) for _ in range(5)]
        assert pauses == [0.2, 0.4, 0.8, 1.6, 3.2]
        with pytest.raises(StoreUnavailable, match=r"host cannot be reached \(down\)"):
            trial.pause_after(OSError("down"))

    def test_patience_lasts_for_the_whole_time(self) -> None:
        trial = self.trial(patient=True)
        assert [trial.pause_after(OSError()) for _ in range(7)][-2:] == [5.0, 5.0]

    def test_what_the_answer_asks_for_counts(self) -> None:
        trial = self.trial(repeatable=False)
        with pytest.raises(Overloaded) as caught:
            trial.result(Reply(503, "4", BUSY))
        assert trial.pause_after(caught.value) == 4.0

    def test_errors_that_stay_are_not_repeated(self) -> None:
        with pytest.raises(InvalidValue):
            self.trial().pause_after(InvalidValue("no"))
