"""The port on which a worker or a scheduler says how it is."""

import asyncio
import json
from typing import Any

import pytest

from mainspring.adapters.health_port import CONNECTIONS_MAX, Answer, health_port
from mainspring.domain.errors import AddressInUse


class Ready:
    """How the process says it is."""

    is_well = True

    async def __call__(self) -> Answer:
        status = "ok" if self.is_well else "unavailable"
        return Answer(self.is_well, {"status": status, "parts": {"store": status}})


async def ask(port: int, text: str) -> tuple[int, bytes]:
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(text.encode())
    answer = await asyncio.wait_for(reader.read(), 10)
    writer.close()
    head, _, body = answer.partition(b"\r\n\r\n")
    return int(head.split()[1]), body


def get(path: str, method: str = "GET") -> str:
    return f"{method} {path} HTTP/1.1\r\nhost: here\r\n\r\n"


async def test_probes_are_told_how_it_is() -> None:
    ready = Ready()
    async with health_port("127.0.0.1", 0, ready) as port:
        status, body = await ask(port, get("/health/ready"))
        assert (status, json.loads(body)) == (200, {"status": "ok", "parts": {"store": "ok"}})
        ready.is_well = False
        status, body = await ask(port, get("/health/ready?from=probe"))
        assert (status, json.loads(body)["status"]) == (503, "unavailable")
        assert (await ask(port, get("/health/live")))[0] == 200
        assert await ask(port, get("/health/ready", "HEAD")) == (503, b"")


@pytest.mark.parametrize(
    ("text", "status"),
    [
        (get("/"), 404),
        (get("/metrics"), 404),
        (get("/health/live", "POST"), 405),
        ("nonsense\r\n\r\n", 404),
        ("GET /health/live HTTP/1.1\r\n" + "x: y\r\n" * 5000 + "\r\n", 400),
    ],
)
async def test_anything_else_is_refused(text: str, status: int) -> None:
    async with health_port("127.0.0.1", 0, Ready()) as port:
        assert (await ask(port, text))[0] == status


async def test_clients_that_say_nothing_keep_nobody_out_for_long(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("mainspring.adapters.health_port.HEAD_SECONDS", 0.2)
    async with health_port("127.0.0.1", 0, Ready()) as port:
        silent: list[tuple[asyncio.StreamReader, Any]] = [
            await asyncio.open_connection("127.0.0.1", port) for _ in range(CONNECTIONS_MAX + 1)
        ]
        for reader, writer in silent:
            assert await asyncio.wait_for(reader.read(), 10) == b""
            writer.close()
        assert (await ask(port, get("/health/live")))[0] == 200


async def test_a_port_that_is_taken() -> None:
    async with health_port("127.0.0.1", 0, Ready()) as port:
        with pytest.raises(AddressInUse, match=f"port {port} .* choose another with --health-port"):
            async with health_port("127.0.0.1", port, Ready()):
                pass
