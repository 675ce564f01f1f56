"""The document tells the truth: about every route, and under schemathesis."""

import asyncio
import os
import sys
from pathlib import Path

import httpx
import pytest

from api.conftest import Api

HERE = Path(__file__).parent


async def test_the_document_has_every_route_and_no_other(
    api: Api, client: httpx.AsyncClient
) -> None:
    document = (await client.get("/v1/openapi.json")).json()
    assert document["openapi"].startswith("3.1")
    described = {
        (method.upper(), path): operation.get("x-scope")
        for path, operations in document["paths"].items()
        for method, operation in operations.items()
    }
    served = {
        (route.method, route.path): route.scope and route.scope.value
        for route in api.application.router.routes
    }
    assert described == served


@pytest.mark.slow
@pytest.mark.timeout(300)
async def test_schemathesis_finds_nothing(api: Api, seed: int, tmp_path: Path) -> None:
    key = await api.key()
    async with api.with_key(key) as client:
        for _ in range(2):
            await client.post("/v1/tasks", json={"task_type": "t"})
        cursor = (await client.get("/v1/tasks", params={"limit": 1})).json()["cursor"]
    program = await asyncio.create_subprocess_exec(
        sys.executable,
        "-m",
        "schemathesis.cli",
        f"--config-file={HERE / 'schemathesis.toml'}",
        "run",
        f"{api.url}/v1/openapi.json",
        "--header",
        f"Authorization: Bearer {key}",
        "--phases=examples,coverage,fuzzing",
        "--max-examples=5",
        f"--seed={seed}",
        "--request-timeout=10",
        "--no-color",
        env={
            **os.environ,
            "SCHEMATHESIS_HOOKS": "contract_hooks",
            "PYTHONPATH": str(HERE),
            "LIST_CURSOR": cursor,
        },
        cwd=tmp_path,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
    )
    try:
        output, _ = await program.communicate()
    finally:
        if program.returncode is None:
            program.kill()
            await program.wait()
    lines = [line[:500] for line in output.decode().splitlines()]
    assert program.returncode == 0, "\n".join(lines[-200:])
    assert api.application.unforeseen == 0
