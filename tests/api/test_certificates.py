"""Workers that prove who they are by a client certificate, over TLS."""

import asyncio
import ssl
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import grpc
import httpx
import pytest
from cryptography import x509

from api.certificates import Authority
from api.conftest import Api, started
from api.rpc import Client
from fixtures.postgres import free_port
from mainspring.api.tls import server_context
from mainspring.domain.errors import InvalidConfiguration
from mainspring.ports.access import Scope

WORKER = "worker-1.example.com"
CLAIM = {"worker_id": "w", "task_types": ["t"]}


@pytest.fixture(scope="module")
def ours(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("ours"), "ours")


@pytest.fixture(scope="module")
def settings(ours: Authority) -> dict[str, Any]:
    certificate, key = ours.server()
    return {
        "tls_cert_file": str(certificate),
        "tls_key_file": str(key),
        "tls_client_ca_file": str(ours.file),
    }


def client_of(
    api: Api, ours: Authority, files: tuple[Path, Path] | None, key: str | None = None
) -> httpx.AsyncClient:
    return httpx.AsyncClient(
        base_url=api.url.replace("http:", "https:"),
        headers={} if key is None else {"authorization": f"Bearer {key}"},
        verify=ours.client(files),
        timeout=20,
        trust_env=False,
    )


async def test_a_certificate_is_the_key_of_its_worker(
    database: str, ours: Authority, settings: dict[str, Any]
) -> None:
    dns = ours.certify("dns", [x509.DNSName(WORKER)])
    uri = ours.certify("uri", [x509.UniformResourceIdentifier("spiffe://example.com/w")])
    unknown = ours.certify("unknown", [x509.DNSName(f"{WORKER}.evil.example")])
    nameless = ours.certify(WORKER)
    both = ours.certify(
        "both",
        [x509.DNSName(WORKER), x509.UniformResourceIdentifier("spiffe://example.com/w")],
    )
    async with started(database, **settings) as api:
        assert any(line.startswith("API: https://") for line in api.said)
        await api.key(Scope.WORK, certificate=WORKER)
        await api.key(Scope.WORK, certificate="spiffe://example.com/w", namespace="acme")
        key = await api.key(Scope.WORK)
        for files, given, status in (
            (dns, None, 200),
            (uri, None, 200),
            (None, key, 200),
            (None, None, 401),
            # Trusted, but nobody's: the key decides.
            (unknown, None, 401),
            (unknown, key, 200),
            # A common name is no name.
            (nameless, None, 401),
            # A request comes from one.
            (dns, key, 401),
            (both, None, 401),
        ):
            async with client_of(api, ours, files, given) as client:
                answer = await client.post("/v1/leases", json=CLAIM)
                assert answer.status_code == status, (files, given)
        async with client_of(api, ours, dns) as worker:
            assert (await worker.get("/v1/tasks")).status_code == 403


async def test_a_lease_belongs_to_the_certificate(
    database: str, ours: Authority, settings: dict[str, Any]
) -> None:
    one = ours.certify("one", [x509.DNSName("one.example.com")])
    two = ours.certify("two", [x509.DNSName("two.example.com")])
    async with started(database, **settings) as api:
        for name in ("one.example.com", "two.example.com"):
            await api.key(Scope.WORK, Scope.SUBMIT, certificate=name)
        async with client_of(api, ours, one) as first, client_of(api, ours, two) as second:
            await first.post("/v1/tasks", json={"task_type": "t"})
            (lease,) = (await first.post("/v1/leases", json=CLAIM)).json()["leases"]
            done = {
                "worker_id": "w",
                "task_id": lease["task_id"],
                "fencing_token": lease["fencing_token"],
            }
            assert (await second.post("/v1/leases/complete", json=done)).status_code == 409
            assert (await first.post("/v1/leases/complete", json=done)).status_code == 200


async def test_strangers_and_expired_certificates_do_not_get_in(
    database: str, ours: Authority, settings: dict[str, Any], tmp_path: Path
) -> None:
    expired = ours.certify("expired", [x509.DNSName(WORKER)], valid=timedelta(days=-1))
    forged = Authority(tmp_path, "theirs").certify("forged", [x509.DNSName(WORKER)])
    async with started(database, **settings, tls_client_required=True) as api:
        await api.key(Scope.WORK, certificate=WORKER)
        for files in (None, expired, forged):
            async with client_of(api, ours, files) as client:
                with pytest.raises((httpx.TransportError, ssl.SSLError)):
                    await client.post("/v1/leases", json=CLAIM)
    context = server_context(settings["tls_cert_file"], settings["tls_key_file"])
    assert context.minimum_version is ssl.TLSVersion.TLSv1_2


async def test_a_certificate_is_revoked_as_a_key_is(
    database: str, ours: Authority, settings: dict[str, Any]
) -> None:
    files = ours.certify("worker", [x509.DNSName(WORKER)])
    late = ours.certify("late", [x509.DNSName("late.example.com")])
    async with started(database, **settings) as api:
        key_id = await api.key(Scope.WORK, certificate=WORKER)
        past = datetime.now(UTC) - timedelta(seconds=1)
        await api.key(Scope.WORK, certificate="late.example.com", expires_at=past)
        async with client_of(api, ours, late) as client:
            assert (await client.post("/v1/leases", json=CLAIM)).status_code == 401
        async with client_of(api, ours, files) as client:
            assert (await client.post("/v1/leases", json=CLAIM)).status_code == 200
            await api.store.revoke_key(key_id)
            async with asyncio.timeout(5):
                while (await client.post("/v1/leases", json=CLAIM)).status_code != 401:  # noqa: ASYNC110 - only time makes it so
                    await asyncio.sleep(0.05)
            other = await api.key(Scope.WORK)
            headers = {"authorization": f"Bearer {other}"}
            answer = await client.post("/v1/leases", json=CLAIM, headers=headers)
            assert answer.status_code == 401, "another key is no way around"


async def test_the_id_of_a_certificate_is_no_key(
    database: str, ours: Authority, settings: dict[str, Any]
) -> None:
    async with started(database) as api:
        key_id = await api.key(Scope.WORK, certificate=WORKER)
        for key in (key_id, f"ms_{key_id}_", f"ms_{key_id}_" + "A" * 43):
            async with api.with_key(key) as client:
                assert (await client.post("/v1/leases", json=CLAIM)).status_code == 401


async def test_what_is_read_along_is_said(
    database: str, ours: Authority, settings: dict[str, Any], tmp_path: Path
) -> None:
    async with started(database, host="0.0.0.0") as api:
        assert any("without TLS" in line for line in api.said)
    async with started(database, host="0.0.0.0", **settings) as api:
        assert not any(line.startswith("warning") for line in api.said)
    for name in ("tls_cert_file", "tls_client_ca_file"):
        with pytest.raises(InvalidConfiguration, match=name):
            async with started(database, **settings | {name: str(tmp_path / "none.pem")}):
                pass


async def test_grpc_knows_the_same_certificates(
    database: str, ours: Authority, settings: dict[str, Any]
) -> None:
    port = free_port()
    worker = ours.certify("grpc", [x509.DNSName(WORKER)])
    stranger = ours.certify("stranger", [x509.DNSName("stranger.example.com")])
    changes = {**settings, "grpc_port": port, "tls_client_required": True}
    async with started(database, **changes) as api:
        await api.key(Scope.WORK, certificate=WORKER)
        key = await api.key(Scope.WORK)
        for files, given, status in (
            (worker, None, None),
            (worker, key, "UNAUTHENTICATED"),
            (stranger, key, None),
            (stranger, None, "UNAUTHENTICATED"),
        ):
            async with channel_of(port, ours, files) as channel:
                client = Client(channel, given)
                if status is None:
                    await client.call("WorkerService.Claim", **CLAIM)
                else:
                    refused = await client.refused("WorkerService.Claim", **CLAIM)
                    assert refused.status == status
        async with channel_of(port, ours, None) as channel:
            refused = await Client(channel, key).refused("WorkerService.Claim", **CLAIM)
            assert refused.status == "UNAVAILABLE"


def channel_of(port: int, ours: Authority, files: tuple[Path, Path] | None) -> grpc.aio.Channel:
    chain, key = (None, None) if files is None else (files[0].read_bytes(), files[1].read_bytes())
    credentials = grpc.ssl_channel_credentials(ours.file.read_bytes(), key, chain)
    local = [("grpc.use_local_subchannel_pool", 1)]
    return grpc.aio.secure_channel(f"127.0.0.1:{port}", credentials, options=local)
