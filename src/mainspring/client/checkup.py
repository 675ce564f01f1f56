"""Checking the API that commands use."""

from collections.abc import AsyncIterator
from importlib.metadata import version
from typing import Final

from mainspring.adapters.system import SystemClock
from mainspring.client.coroutines import Client
from mainspring.client.exchange import get
from mainspring.client.installation import client_of
from mainspring.config import Settings
from mainspring.domain.errors import Forbidden, MainspringError
from mainspring.wiring.findings import Finding

_SECONDS: Final = 5.0


async def findings(settings: Settings) -> AsyncIterator[Finding]:
    """Yield what is found, part by part; stops where the next part cannot be looked at."""
    clock = SystemClock()
    try:
        client = client_of(settings, _SECONDS)
    except MainspringError as error:
        yield Finding("api", ok=False, detail=error.message)
        return
    async with client:
        sent = clock.monotonic()
        try:
            await client.call(get("/health/live"))
        except MainspringError as error:
            yield Finding("api", ok=False, detail=error.message)
            return
        took = clock.monotonic() - sent
        yield Finding("api", ok=True, detail=f"answers at {settings.api_url}, {took * 1000:.0f} ms")
        yield await _parts(client)
        async for finding in _key(client):
            yield finding


async def _parts(client: Client) -> Finding:
    try:
        await client.call(get("/health/ready"))
    except MainspringError as error:
        return Finding("api parts", ok=False, detail=f"the API is not ready: {error.message}")
    return Finding("api parts", ok=True, detail="ready")


async def _key(client: Client) -> AsyncIterator[Finding]:
    try:
        described = await client.call(get("/v1/openapi.json"))
    except Forbidden:
        detail = "valid, without the scope read, so what looks is refused"
        yield Finding("api key", ok=True, detail=detail)
        return
    except MainspringError as error:
        yield Finding("api key", ok=False, detail=error.message)
        return
    yield Finding("api key", ok=True, detail="valid")
    theirs = str(described.get("info", {}).get("version", "unknown"))
    ours = version("mainspring")
    is_same = theirs == ours
    detail = f"{theirs}, as here" if is_same else f"{theirs}, and {ours} here; make them the same"
    yield Finding("api version", is_same, detail)
