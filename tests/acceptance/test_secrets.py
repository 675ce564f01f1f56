"""What nobody may learn: keys, passwords and payloads come out nowhere, and nothing is open."""

import json
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit, urlunsplit

import asyncpg
import httpx
import psutil
import pytest

from acceptance.shell import APP, Answer, Running, Shell
from fixtures.postgres import PostgresServer
from mainspring.config import load

PASSWORD = "canary-of-the-password"
PAYLOAD = "canary-of-the-payload"
TOKEN = "eyJhbGciOiJSUzI1NiJ9.Y2FuYXJ5LW9mLXRoZS10b2tlbg.Y2FuYXJ5"
WRONG_KEY = "ms_0123456789abcdef_" + "Canary" * 7 + "A"
CHOOSE = """
from typing import Literal

@app.task
def choose(one: Literal["a", "b"]) -> str:
    return one
"""
JSON = {"content-type": "application/json"}
ROLE = "canary_services"


@dataclass
class Places:
    """Every text that an installation gave out, by where it came from."""

    texts: dict[str, str]

    def add(self, where: str, text: str | Answer) -> None:
        self.texts[where] = f"{text.out}{text.err}" if isinstance(text, Answer) else text

    def holding(self, secret: str) -> list[str]:
        return [where for where, text in self.texts.items() if secret in text]


@pytest.fixture
async def limited(postgres_server: PostgresServer, database: str) -> AsyncIterator[str]:
    """The URL of a database for a role with a password that must not come out."""
    owner = await asyncpg.connect(database)
    try:
        await owner.execute(f"CREATE ROLE {ROLE} LOGIN PASSWORD '{PASSWORD}'")
        url = urlsplit(postgres_server.tcp_dsn(urlsplit(database).path[1:]))
        place = url.netloc.rpartition("@")[2]
        yield urlunsplit(url._replace(netloc=f"{ROLE}:{PASSWORD}@{place}"))
        await owner.execute(f"DROP OWNED BY {ROLE}")
        await owner.execute(f"DROP ROLE {ROLE}")
    finally:
        await owner.close()


def bad_requests(key: str) -> Iterator[tuple[str, dict[str, Any]]]:
    """Requests that are refused, with secrets in places where clients put them by mistake."""
    task = {"task_type": "greet", "payload": {"name": PAYLOAD}}
    text = json.dumps(task)
    for content in (
        text[:-1],
        text + text,
        json.dumps({"task_type": "greet", "payload": PAYLOAD}),
        json.dumps({"task_type": "greet", "payload": [PAYLOAD]}),
        json.dumps([task]),
        json.dumps({**task, "priority": 11}),
        json.dumps({**task, "timeout": "soon"}),
        json.dumps({**task, "unknown": 1}),
        text.replace(PAYLOAD, PAYLOAD + "\\ud800"),
        text.replace(PAYLOAD, PAYLOAD + "\\u0000"),
        text.replace('"name"', f'"name": "{PAYLOAD}", "name"'),
        text.replace(f'"{PAYLOAD}"', f'"{PAYLOAD}" oops'),
    ):
        yield f"Bearer {key}", {"content": content, "headers": JSON}
    for bearer in (WRONG_KEY, key + "x", f"{TOKEN}x", TOKEN):
        yield f"Bearer {bearer}", {"json": task}
    yield f"Basic {key}", {"json": task}


async def test_no_secret_comes_out(
    shell: Shell, postgres_server: PostgresServer, database: str, limited: str
) -> None:
    (shell.directory / "acceptance_app.py").write_text(APP + CHOOSE)
    shell.environment |= {
        "MAINSPRING_DATABASE_URL": limited,
        "MAINSPRING_LOG_LEVEL": "debug",
        "MAINSPRING_OIDC_ISSUER": "http://127.0.0.1:9",
        "MAINSPRING_OIDC_AUDIENCE": "mainspring",
    }
    places = Places({})
    granted = shell("migrate", "--grant-to", ROLE, MAINSPRING_DATABASE_URL=database)
    assert granted.status == 0
    scopes = "submit,read,work,admin"
    made = shell("keys", "create", "k", "--scope", scopes, MAINSPRING_DATABASE_URL=database)
    key = made.out.strip()
    api = shell.start("api")
    worker = shell.start("worker", "--app", "acceptance_app:app", "--processes", 1)
    try:
        worker.until("worker runs")
        api.until("ready")
        url = next(line.split()[-1] for line in api.said if line.startswith("API:"))
        with httpx.Client(base_url=url, timeout=20, trust_env=False) as client:
            give_work(client, key, places)
            await outage(database, client, key, places)
        places.add("arguments", "\n".join(arguments_of(api, worker)))
    finally:
        api.stop()
        worker.stop()
    places.add("log of the API", "\n".join(api.said))
    places.add("log of the worker", "\n".join(worker.said))
    for command in (("doctor",), ("keys", "list")):
        places.add(" ".join(command), shell(*command))
    wrong = limited.replace(PASSWORD, f"{PASSWORD}-old")
    for command in (("doctor",), ("api",)):
        places.add(f"{command} refused", shell(*command, MAINSPRING_DATABASE_URL=wrong))
    places.add("repr", repr(load({}, environ=shell.environment, directory=shell.directory)))
    places.add("audit", "\n".join(await rows_of(database, "audit")))
    places.add("log of PostgreSQL", postgres_server.embedded.log_file.read_text())
    assert len(places.texts["audit"]) > 0
    assert "connection" in places.texts["log of the API"], "the outage was seen"
    for secret in (PASSWORD, PAYLOAD, key.split("_", 2)[2], key[20:], TOKEN, WRONG_KEY[20:]):
        assert places.holding(secret) == []


def give_work(client: httpx.Client, key: str, places: Places) -> None:
    """Submit good and bad tasks, and look at everything that does not show a payload."""
    good = {"authorization": f"Bearer {key}"}
    for task in (
        {"task_type": "greet", "payload": {"name": PAYLOAD}},
        {"task_type": "greet", "payload": {"name": {"of": PAYLOAD}}, "max_retries": 0},
        {"task_type": "nap", "payload": {"seconds": PAYLOAD}, "max_retries": 0},
        {"task_type": "choose", "payload": {"one": PAYLOAD}, "max_retries": 0},
    ):
        answer = client.post("/v1/tasks", json=task, headers=good)
        assert answer.status_code == 201
        events = client.get(f"/v1/tasks/{answer.json()['task_id']}/events", headers=good).text
        places.add(f"answer to {task}", answer.text + events.replace(f"hello {PAYLOAD}", ""))
    for at, (header, request) in enumerate(bad_requests(key)):
        headers = {"authorization": header, **request.pop("headers", {})}
        answer = client.post("/v1/tasks", headers=headers, **request)
        assert 400 <= answer.status_code < 500, answer.text
        places.add(f"refusal {at}", answer.text + str(answer.headers))
    wrong_place = client.get("/v1/tasks", params={"access_token": key})
    places.add("key in the query", wrong_place.text)
    for path in ("/metrics", "/v1/audit", "/v1/stats", "/v1/workers", "/v1/openapi.json"):
        places.add(path, client.get(path, headers=good).text)


async def outage(database: str, client: httpx.Client, key: str, places: Places) -> None:
    """Let nobody into the database for a moment, so that there is something to complain about."""
    owner = await asyncpg.connect(database)
    try:
        await owner.execute(f"ALTER ROLE {ROLE} NOLOGIN")
        await owner.execute(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE usename = $1", ROLE
        )
        meet_outage(client, key, places)
    finally:
        await owner.execute(f"ALTER ROLE {ROLE} LOGIN")
        await owner.close()


def meet_outage(client: httpx.Client, key: str, places: Places) -> None:
    task = {"task_type": "greet", "payload": {"name": PAYLOAD}}
    for path in ("/v1/tasks", "/v1/tasks", "/v1/queues/default/pause"):
        answer = client.post(path, json=task, headers={"authorization": f"Bearer {key}"})
        places.add(f"{path} in an outage", answer.text)
    places.add("health", client.get("/health/ready").text)


def arguments_of(*running: Running) -> Iterator[str]:
    for one in running:
        process = psutil.Process(one.process.pid)
        for each in (process, *process.children(recursive=True)):
            yield " ".join(each.cmdline())


async def rows_of(database: str, table: str) -> list[str]:
    owner = await asyncpg.connect(database)
    try:
        return [row["t"] for row in await owner.fetch(f"SELECT t::text FROM mainspring.{table} t")]
    finally:
        await owner.close()


def test_with_no_settings_only_health_answers(installation: Shell) -> None:
    url, process = installation.api_url, installation.process
    listening = [
        connection.laddr.ip
        for each in (process, *process.children(recursive=True))
        for connection in each.net_connections("tcp")
        if connection.status == psutil.CONN_LISTEN
    ]
    assert {address.removeprefix("::ffff:") for address in listening} == {"127.0.0.1"}
    key = installation("keys", "create", "k", "--scope", "read").out.strip()
    with httpx.Client(base_url=url, timeout=20, trust_env=False) as client:
        headers = {"authorization": f"Bearer {key}"}
        paths = client.get("/v1/openapi.json", headers=headers).json()["paths"]
        for path, methods in paths.items():
            for method in methods:
                answer = client.request(method, path)
                wanted = 200 if path.startswith("/health/") else 401
                assert answer.status_code == wanted, (method, path)
        for path in ("/", "/docs", "/debug", "/admin", "/v1", "/openapi.json", "/.env"):
            assert client.get(path).status_code == 404
        site = {"origin": "https://evil.example", "access-control-request-method": "POST"}
        answer = client.options("/v1/tasks", headers=site)
        assert answer.status_code == 405
        assert not any(name.startswith("access-control") for name in answer.headers)
