"""Requests as they go out, what answers mean, and servers, names and redirects that mean harm."""

import asyncio
import gzip
import json
import ssl
import tracemalloc
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from ipaddress import ip_address
from pathlib import Path
from typing import Any

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec

from mainspring.domain.errors import TargetRefused
from mainspring.domain.signatures import is_signed
from mainspring.domain.targets import Address, TargetRules, parse_allowed, parse_target
from mainspring.domain.task import Completed, Failed, FailureKind, Lease, Retried, TickRef
from mainspring.worker import http_client
from mainspring.worker.exchange import Call, CallFailed
from mainspring.worker.execution import Ended, Execution, Prepared, directly
from mainspring.worker.http_client import HttpClient
from mainspring.worker.http_tasks import HttpCalls, HttpOptions, http_definitions
from manual_clock import START, ManualClock
from unit.worker.making import Link, make_lease
from unit.worker.web import Site, answer, site

SECRETS = {"acme": "s3cret-s3cret-s3cret", "tenant~acme": "other-other-other-other"}


@pytest.fixture(scope="module")
def trusting() -> ssl.SSLContext:
    return http_client.trusting_context()


@pytest.fixture(autouse=True)
def _quick(trusting: ssl.SSLContext, monkeypatch: pytest.MonkeyPatch) -> None:
    """Reading the certificates of the system takes longer than most of these tests."""
    monkeypatch.setattr(http_client, "trusting_context", lambda: trusting)


def rules(*allowed: str) -> TargetRules:
    return TargetRules(allowed=tuple(map(parse_allowed, allowed)))


async def attempt(lease: Lease, *allowed: str) -> Ended:
    calls = HttpCalls(HttpOptions(rules(*allowed), SECRETS), ManualClock())
    named = {definition.name: definition for definition in http_definitions(calls)}
    execution = Execution(
        Prepared(named[lease.task_type]),
        lease,
        clock=ManualClock(),
        jitter=0.0,
        link=Link(),
        ends_at=30.0,
    )
    try:
        return await execution.run(directly)
    finally:
        await calls.close()


async def call(to: Site | str, *allowed: str, **payload: Any) -> Ended:
    """Run an http task against a site, which is allowed."""
    url = to.url if isinstance(to, Site) else to
    lease = make_lease({"url": url, **payload}, task_type="http", attempt=2, fencing_token=7)
    return await attempt(
        lease, *allowed, *([f"127.0.0.1:{to.port}"] if isinstance(to, Site) else [])
    )


def result_of(ended: Ended) -> Any:
    assert isinstance(ended, Completed), ended
    return json.loads(ended.result or "null")


async def test_a_request_says_which_attempt_of_which_task_it_is() -> None:
    async with site(answer(200, b"done", ETag="x", Set_Cookie="a=b")) as there:
        tick = TickRef("daily", START)
        lease = make_lease(
            {
                "url": f"{there.url}/hook?a=b#c",
                "headers": {"X-Token": "t"},
                "body": {"id": "{{task_id}}", "n": "{{attempt}}", "at": "{{nominal_at}}"},
                "sign": "acme",
            },
            task_type="http",
            attempt=2,
            fencing_token=7,
            tick=tick,
        )
        ended = await attempt(lease, f"127.0.0.1:{there.port}")
    (request,) = there.requests
    task_id = str(lease.id)
    assert request.line == "POST /hook?a=b HTTP/1.1"
    assert json.loads(request.body) == {
        "id": task_id,
        "n": "2",
        "at": "2026-05-12T15:00:00.000000Z",
    }
    signature = request.headers.pop("mainspring-signature")
    assert is_signed(request.body, signature, [SECRETS["acme"]], now=START.timestamp())
    assert request.headers == {
        "host": f"127.0.0.1:{there.port}",
        "accept-encoding": "identity",
        "content-length": str(len(request.body)),
        "user-agent": "Mainspring",
        "accept": "*/*",
        "idempotency-key": task_id,
        "mainspring-task-id": task_id,
        "mainspring-attempt": "2",
        "mainspring-fencing-token": "7",
        "x-token": "t",
        "content-type": "application/json",
    }
    assert result_of(ended) == {
        "status": 200,
        "headers": {"content-length": "4", "etag": "x"},
        "seconds": 0.0,
        "body_bytes": 4,
        "body_is_cut": False,
    }


async def test_the_body_of_an_answer_is_kept_on_request_and_up_to_a_bound() -> None:
    async with site(answer(200, b"a\x00\xff" + b"b" * 97)) as there:
        kept = result_of(await call(there, keep_body=True))
        cut = result_of(await call(there, keep_body=True, max_response_bytes=10))
        none = result_of(await call(there, keep_body=True, max_response_bytes=0))
    assert (kept["body"], kept["body_is_cut"]) == ("a\ufffd\ufffd" + "b" * 97, False)
    assert (cut["body"], cut["body_is_cut"]) == ("a\ufffd\ufffd" + "b" * 7, True)
    assert (none["body"], none["body_is_cut"]) == ("", True)


async def test_the_secrets_of_a_namespace_are_its_own() -> None:
    async with site(answer(204)) as there:
        payload = {"url": there.url, "body": "x", "sign": "acme"}
        lease = make_lease(payload, task_type="http", queue="tenant~default")
        assert isinstance(await attempt(lease, f"127.0.0.1:{there.port}"), Completed)
        signature = there.requests[0].headers["mainspring-signature"]
        assert is_signed(b"x", signature, [SECRETS["tenant~acme"]], now=START.timestamp())
        lease = make_lease(payload, task_type="http", queue="stranger~default")
        ended = await attempt(lease, f"127.0.0.1:{there.port}")
    assert isinstance(ended, Failed)
    assert "signing_secrets" in ended.failure.message
    assert len(there.requests) == 1


async def test_a_webhook_is_told() -> None:
    body = {"event": "completed", "task_id": "x"}
    async with site(answer(200)) as there:
        lease = make_lease(
            {"url": there.url, "sign": "acme", "body": body}, task_type="mainspring.webhook"
        )
        ended = await attempt(lease, f"127.0.0.1:{there.port}")
    (request,) = there.requests
    assert result_of(ended) == {"status": 200}
    assert request.line == "POST / HTTP/1.1"
    assert json.loads(request.body) == body
    assert request.headers["idempotency-key"] == str(lease.id)
    signature = request.headers["mainspring-signature"]
    assert is_signed(request.body, signature, [SECRETS["acme"]], now=START.timestamp())


@pytest.mark.parametrize("status", [408, 425, 429, 500, 502, 503, 504])
async def test_what_may_go_away_is_tried_again(status: int) -> None:
    async with site(answer(status)) as there:
        ended = await call(there)
    assert isinstance(ended, Retried)
    assert ended.failure.message == f"StatusRefused: {there.url} answered {status}"
    assert "mainspring/" not in ended.failure.traceback
    assert ended.delay_seconds == 8.0


@pytest.mark.parametrize("status", [301, 304, 400, 401, 403, 404, 409, 410, 422, 423])
async def test_what_will_not_go_away_is_final(status: int) -> None:
    async with site(answer(status)) as there:
        ended = await call(there)
    assert isinstance(ended, Failed)
    assert (ended.failure.kind, f"answered {status}" in ended.failure.message) == (
        FailureKind.FINAL,
        True,
    )


@pytest.mark.parametrize(
    ("said", "seconds"),
    [
        ("120", 120.0),
        ("1", 8.0),
        ("999999", 3600.0),
        ("Tue, 12 May 2026 15:01:30 GMT", 90.0),
        ("soon", 8.0),
    ],
)
async def test_the_server_says_when_to_come_back(said: str, seconds: float) -> None:
    async with site(answer(503, Retry_After=said)) as there:
        ended = await call(there)
    assert isinstance(ended, Retried)
    assert ended.delay_seconds == seconds


async def test_which_statuses_are_success_is_the_payloads_choice() -> None:
    async with site(answer(404)) as there:
        assert result_of(await call(there, success=[200, 404]))["status"] == 404
        assert isinstance(await call(there, success=["5xx"]), Failed)


async def test_a_server_that_is_not_there_or_breaks_off_is_tried_again() -> None:
    async with site(b"", b"nonsense\r\n\r\n") as there:
        for _ in range(2):
            ended = await call(there)
            assert isinstance(ended, Retried)
            assert ended.failure.message.startswith(f"CallFailed: {there.url} did not answer")
    ended = await call(there)
    assert isinstance(ended, Retried)


async def test_a_name_that_is_not_known_is_tried_again() -> None:
    ended = await call("http://no-such-name.invalid/")
    assert isinstance(ended, Retried)
    assert "its name is not known" in ended.failure.message


@pytest.mark.parametrize(
    "url",
    [
        "http://127.0.0.1/",
        "http://127.1/",
        "http://0x7f.1/",
        "http://2130706433/",
        "http://[::]/",
        "http://[::1]/",
        "http://[::ffff:127.0.0.1]/",
        "http://[fe80::1%25eth0]/",
        "http://user@127.0.0.1/",
        "http://localhost./",
        "http://postgres:8080/",
        "http://169.254.169.254/",
        "gopher://127.0.0.1/",
        "file:///etc/passwd",
        "unix:/run/docker.sock",
    ],
)
async def test_what_leads_inside_is_refused_for_good_before_a_connection(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def never(*_: Any) -> None:
        raise AssertionError("a name was looked up")

    monkeypatch.setattr(http_client, "resolved", never)
    ended = await call(url)
    assert isinstance(ended, Failed)
    assert ended.failure.kind is FailureKind.FINAL
    assert ended.failure.message.startswith("TargetRefused: ")


class Resolver:
    """Names and the addresses that they have, at each look-up in turn."""

    def __init__(self, **names: Sequence[Sequence[str]]) -> None:
        self._names = {name.replace("_", "."): list(turns) for name, turns in names.items()}
        self.asked: list[str] = []

    async def __call__(self, host: str, port: int) -> list[Address]:  # noqa: ARG002
        self.asked.append(host)
        turns = self._names[host]
        return [ip_address(text) for text in (turns.pop(0) if len(turns) > 1 else turns[0])]


def get(url: str) -> Call:
    return Call(parse_target(url), "GET", (), b"", 1000)


async def test_one_closed_address_of_a_name_closes_it() -> None:
    resolver = Resolver(a_example=[["1.1.1.1", "127.0.0.1"]], six_example=[["64:ff9b::7f00:1"]])
    client = HttpClient(rules(), resolve=resolver)
    for host in ("a.example", "six.example"):
        with pytest.raises(TargetRefused, match="not public"):
            await client.call(get(f"http://{host}:8080/"))
    assert resolver.asked == ["a.example", "six.example"]
    await client.close()


async def test_the_connection_goes_to_the_address_that_was_checked() -> None:
    """The second answer of a rebinding name server is never asked for by this connection."""
    async with site(answer(200, Connection="close")) as there:
        good, evil = "127.0.0.1", "127.0.0.2"
        resolver = Resolver(a_example=[[good], [evil], [evil]])
        client = HttpClient(rules(f"{good}:{there.port}"), resolve=resolver)
        url = f"http://a.example:{there.port}/"
        assert (await client.call(get(url))).status == 200
        assert resolver.asked == ["a.example"]
        assert there.requests[0].headers["host"] == f"a.example:{there.port}"
        # A new connection is a new look-up, and is checked like the first.
        with pytest.raises(TargetRefused):
            await client.call(get(url))
        assert there.connections == 1
        await client.close()


async def test_a_connection_is_used_again_without_a_look_up() -> None:
    async with site(answer(200)) as there:
        resolver = Resolver(a_example=[["127.0.0.1"], ["10.0.0.1"]])
        client = HttpClient(rules(f"127.0.0.1:{there.port}"), resolve=resolver)
        for _ in range(3):
            assert (await client.call(get(f"http://a.example:{there.port}/"))).status == 200
        assert (there.connections, resolver.asked) == (1, ["a.example"])
        await client.close()


async def test_an_address_that_does_not_answer_leaves_the_others() -> None:
    async with site(answer(200)) as there:
        resolver = Resolver(a_example=[["127.0.0.2", "127.0.0.1"]])
        client = HttpClient(rules(f"a.example:{there.port}"), resolve=resolver)
        assert (await client.call(get(f"http://a.example:{there.port}/"))).status == 200
        await client.close()


async def test_no_proxy_is_taken_from_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    async with site(answer(500)) as proxy, site(answer(200)) as there:
        for name in ("http_proxy", "HTTP_PROXY", "ALL_PROXY"):
            monkeypatch.setenv(name, proxy.url)
        assert result_of(await call(there))["status"] == 200
        assert proxy.requests == []


async def test_redirects_are_followed_only_on_request() -> None:
    async with site(answer(302, Location="/next"), answer(200)) as there:
        ended = await call(there, body="x")
        assert isinstance(ended, Failed)
        assert "answered 302; give the URL that it leads to" in ended.failure.message
    assert len(there.requests) == 1


@pytest.mark.parametrize(
    ("status", "method", "body"),
    [
        (301, "GET", b""),
        (302, "GET", b""),
        (303, "GET", b""),
        (307, "PUT", b"x"),
        (308, "PUT", b"x"),
    ],
)
async def test_a_redirect_asks_again_as_its_status_says(
    status: int, method: str, body: bytes
) -> None:
    asked = "POST" if status in (301, 302) else "PUT"
    async with site(answer(status, Location="/next"), answer(200)) as there:
        ended = await call(there, redirects=1, body="x", method=asked)
    assert result_of(ended)["status"] == 200
    assert [request.line.split()[:2] for request in there.requests] == [
        [asked, "/"],
        [method, "/next"],
    ]
    assert there.requests[1].body == body


async def test_another_server_is_not_shown_what_was_for_the_first() -> None:
    async with site(answer(200)) as second, site() as first:
        first.answers.append(answer(307, Location=f"{second.url}/x"))
        ended = await call(
            first,
            f"127.0.0.1:{second.port}",
            redirects=1,
            body="x",
            sign="acme",
            headers={"Authorization": "Bearer t"},
        )
    assert result_of(ended)["status"] == 200
    (request,) = second.requests
    assert not {"authorization", "mainspring-signature"} & request.headers.keys()
    assert (request.body, request.headers["host"]) == (b"x", f"127.0.0.1:{second.port}")


@pytest.mark.parametrize(
    "location",
    [
        "http://127.0.0.1:1/",
        "//127.1/",
        "http://169.254.169.254/latest/",
        "http://[::1]/",
        "http://user@a.example/",
        "file:///etc/passwd",
        "gopher://a.example/",
    ],
)
async def test_each_redirect_is_checked(location: str) -> None:
    async with site(answer(302, Location=location)) as there:
        ended = await call(there, redirects=5)
    assert isinstance(ended, Failed)
    assert ended.failure.message.startswith("TargetRefused: ")
    assert len(there.requests) == 1


async def test_a_chain_of_redirects_ends() -> None:
    async with site(answer(302, Location="/again")) as there:
        ended = await call(there, redirects=5)
    assert isinstance(ended, Failed)
    assert len(there.requests) == 6


async def test_a_body_without_end_is_not_read_to_the_end() -> None:
    async with site(b"HTTP/1.1 200 OK\r\n\r\n") as there:
        there.endless = b"x" * 65536
        tracemalloc.start()
        ended = await call(there, keep_body=True)
        _, peak = tracemalloc.get_traced_memory()
        tracemalloc.stop()
    assert (len(result_of(ended)["body"]), result_of(ended)["body_is_cut"]) == (65536, True)
    assert peak < 20_000_000


async def test_headers_without_end_are_not_read_to_the_end() -> None:
    async with site(b"HTTP/1.1 200 OK\r\n") as there:
        there.endless = b"X-A: b\r\n" * 1000
        ended = await call(there)
    assert isinstance(ended, Retried)
    assert there.sent < 10_000_000


async def test_nothing_is_decompressed() -> None:
    bomb = gzip.compress(bytes(10_000_000))
    async with site(answer(200, bomb, Content_Encoding="gzip")) as there:
        result = result_of(await call(there, keep_body=True))
    assert (result["body_bytes"], result["headers"]["content-encoding"]) == (len(bomb), "gzip")
    assert "body" not in result


async def test_a_slow_drip_ends_with_the_time_of_the_request() -> None:
    async with site(b"HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\n") as there:
        there.endless, there.pause = b"x", 1.0
        ended = await asyncio.wait_for(call(there, timeout=0.2), 5)
    assert isinstance(ended, Retried)
    assert ended.failure.message == f"TimeoutError: {there.url} did not answer within 0.2 s"


async def test_a_cancelled_request_lets_go() -> None:
    async with site(b"HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\n") as there:
        there.endless, there.pause = b"x", 1.0
        running = asyncio.create_task(call(there))
        while not there.sent:
            await asyncio.wait({running}, timeout=0.01)
        running.cancel()
        await asyncio.wait({running})
        assert running.done()


async def test_the_name_stays_in_tls(tmp_path: Path) -> None:
    context, trusting = certified(tmp_path, "secure.example")
    async with site(answer(200), tls=context) as there:
        resolver = Resolver(secure_example=[["127.0.0.1"]], other_example=[["127.0.0.1"]])
        client = HttpClient(rules(f"127.0.0.1:{there.port}"), resolve=resolver, context=trusting)
        answered = await client.call(get(f"https://secure.example:{there.port}/"))
        assert answered.status == 200
        with pytest.raises(CallFailed, match="CERTIFICATE_VERIFY_FAILED"):
            await client.call(get(f"https://other.example:{there.port}/"))
        await client.close()


def certified(directory: Path, name: str) -> tuple[ssl.SSLContext, ssl.SSLContext]:
    """Return the context of a server with a certificate for a name, and one that trusts it."""
    key = ec.generate_private_key(ec.SECP256R1())
    subject = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, name)])
    now = datetime.now(UTC)
    certificate = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(subject)
        .public_key(key.public_key())
        .serial_number(1)
        .not_valid_before(now - timedelta(days=1))
        .not_valid_after(now + timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName([x509.DNSName(name)]), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(key, hashes.SHA256())
    )
    file = directory / "certificate.pem"
    file.write_bytes(
        key.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.NoEncryption(),
        )
        + certificate.public_bytes(serialization.Encoding.PEM)
    )
    server = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    server.load_cert_chain(file)
    return server, ssl.create_default_context(cafile=str(file))
