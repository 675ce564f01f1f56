"""An http task and a webhook from the command line to a server that checks the signature."""

import json
import socketserver
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from queue import Queue
from typing import NamedTuple

import pytest

from acceptance.shell import Shell
from mainspring import verify_signature

SECRET = "a-secret-of-the-test"


class Heard(NamedTuple):
    path: str
    headers: dict[str, str]
    body: bytes


class Ears(ThreadingHTTPServer):
    """A server that answers 200 and remembers what it heard."""

    daemon_threads = True

    def __init__(self) -> None:
        self.heard: Queue[Heard] = Queue()
        super().__init__(("127.0.0.1", 0), Answering)


class Answering(BaseHTTPRequestHandler):
    def do_POST(self) -> None:
        assert isinstance(self.server, Ears)
        body = self.rfile.read(int(self.headers["Content-Length"]))
        self.server.heard.put(Heard(self.path, dict(self.headers), body))
        self.send_response(200)
        self.end_headers()

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def ears() -> Iterator[Ears]:
    with Ears() as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield server
        server.shutdown()
        thread.join()


def port_of(server: socketserver.TCPServer) -> int:
    return int(server.server_address[1])


def test_from_the_command_line_to_the_receiver(shell: Shell, ears: Ears) -> None:
    """Without an app; the worker has nothing but the built-in types."""
    base = f"http://127.0.0.1:{port_of(ears)}"
    shell.environment.update(
        MAINSPRING_HTTP_ALLOW=f"127.0.0.1:{port_of(ears)}",
        MAINSPRING_SIGNING_SECRETS=f"main={SECRET}",
    )
    running = shell.start("up", "--processes", 1)
    running.until("ready")
    webhook = f"{base}/hook"
    payload = {"url": f"{base}/call", "body": {"id": "{{task_id}}"}, "sign": "main"}
    submitted = shell(
        *("tasks", "submit", "http", "--payload", json.dumps(payload), "--webhook", webhook),
        *("--wait", "--json"),
    )
    assert submitted.status == 0, submitted
    called, told = (ears.heard.get(timeout=20) for _ in range(2))
    task_id = called.headers["Mainspring-Task-Id"]
    assert (called.path, json.loads(called.body)) == ("/call", {"id": task_id})
    assert verify_signature(called.body, called.headers["Mainspring-Signature"], SECRET)
    assert told.path == "/hook"
    body = json.loads(told.body)
    assert (body["event"], body["task_id"], body["task_type"]) == ("completed", task_id, "http")
    assert told.headers["Idempotency-Key"] != task_id
    assert SECRET not in "\n".join(running.said)

    refused = shell(
        *("tasks", "submit", "http", "--payload", '{"url": "http://127.0.0.1:1/"}'),
        *("--wait", "--max-retries", 5),
    )
    assert refused.status == 1
    (dead,) = shell("dead-letters", "list", "--json").lines
    assert dead["last_error"].startswith("TargetRefused: ")
    assert running.stop() == 0


@pytest.mark.parametrize(
    ("arguments", "field"),
    [
        (("http",), "payload.url"),
        (("http", "--payload", '{"url": "file:///etc/passwd"}'), "payload.url"),
        (("http", "--payload", '{"url": "http://a.example", "verb": 1}'), "payload.verb"),
        (("mainspring.webhook", "--payload", '{"url": "http://a.example"}'), "task_type"),
        (("mail", "--webhook", "http://user@a.example"), "webhook"),
    ],
)
def test_what_no_worker_would_do_is_refused_where_it_is_written(
    shell: Shell, arguments: tuple[str, ...], field: str
) -> None:
    answer = shell("tasks", "submit", *arguments)
    assert answer.status == 2
    assert answer.sentence.startswith(f"{field} ")
