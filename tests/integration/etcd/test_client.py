"""The client of etcd against real servers: passwords, TLS, endpoints that are not there."""

import asyncio
import datetime as dt
import ipaddress
import socket
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec

from fixtures.etcd import EtcdServer
from mainspring.adapters.etcd._generated import etcd_pb2 as pb
from mainspring.adapters.etcd.client import PUT, RANGE, EtcdClient, EtcdOptions
from mainspring.adapters.etcd.coordination import EtcdCoordination
from mainspring.adapters.system import SystemClock
from mainspring.config import load
from mainspring.domain.errors import InvalidConfiguration, MainspringError, SetupError, Unavailable
from mainspring.wiring.checkup import findings
from mainspring.wiring.etcd import etcd_findings, etcd_options

Opener = Callable[..., EtcdClient]


@pytest.fixture
async def client() -> AsyncIterator[Opener]:
    opened: list[EtcdClient] = []

    def open_client(*endpoints: str, **options: object) -> EtcdClient:
        chosen = EtcdOptions(endpoints=endpoints, **options)  # type: ignore[arg-type]
        opened.append(EtcdClient(chosen))
        return opened[-1]

    yield open_client
    for each in opened:
        await each.close()


@pytest.fixture
def silent() -> Iterator[str]:
    """An endpoint that takes connections and never says anything."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen(8)
        yield f"127.0.0.1:{listener.getsockname()[1]}"


async def value(client: EtcdClient, key: str) -> bytes:
    answer = await client.call(RANGE, pb.RangeRequest(key=key.encode()))
    return answer.kvs[0].value


async def put(client: EtcdClient, key: str, text: str) -> None:
    await client.call(PUT, pb.PutRequest(key=key.encode(), value=text.encode()))


async def test_an_endpoint_that_answers_is_found_and_kept(
    client: Opener, etcd_server: EtcdServer, etcd_prefix: str, silent: str
) -> None:
    refusing = "127.0.0.1:1"
    asking = client(refusing, silent, etcd_server.endpoint)
    await put(asking, etcd_prefix, "found")
    async with asyncio.timeout(0.5):
        assert await value(asking, etcd_prefix) == b"found"


async def test_nobody_answers(client: Opener, silent: str) -> None:
    with pytest.raises(Unavailable, match="cannot be reached"):
        await value(client("127.0.0.1:1"), "any")
    with pytest.raises(Unavailable, match=silent):
        await asyncio.wait_for(value(client(silent), "any"), 5)


async def test_a_round_that_is_cut_short_goes_elsewhere_next_time(
    client: Opener, etcd_server: EtcdServer, etcd_prefix: str, silent: str
) -> None:
    asking = client(silent, etcd_server.endpoint)
    with pytest.raises(TimeoutError):
        await asyncio.wait_for(put(asking, etcd_prefix, "x"), 0.2)
    async with asyncio.timeout(0.9):
        await put(asking, etcd_prefix, "x")


async def test_user_and_password(client: Opener, own_etcd: EtcdServer, tmp_path: Path) -> None:
    own_etcd.ctl("user", "add", "root:secret")
    own_etcd.ctl("user", "add", "mainspring:s3cret")
    own_etcd.ctl("role", "add", "ours")
    own_etcd.ctl("role", "grant-permission", "ours", "--prefix=true", "readwrite", "mainspring/")
    own_etcd.ctl("user", "grant-role", "mainspring", "ours")
    own_etcd.ctl("auth", "enable")

    settings = load(
        {"etcd_url": f"http://mainspring:s3cret@{own_etcd.endpoint}", "coordination": "etcd"},
        directory=tmp_path,
    )
    coordination = EtcdCoordination(etcd_options(settings), "mainspring", SystemClock())
    session = await coordination.join("one", 5.0)
    assert await session.acquire({1, 2}) == {1, 2}
    # A server that begins anew knows no token that was given out before.
    own_etcd.kill()
    own_etcd.start()
    async with asyncio.timeout(15):
        while True:
            try:
                assert await session.renew()
            except Unavailable:
                await asyncio.sleep(0.1)
            else:
                break
    assert (await session.view()).holders == {1: "one", 2: "one"}
    await session.leave()
    await coordination.close()

    with pytest.raises(SetupError, match="user and password"):
        await value(client(own_etcd.endpoint, user="mainspring", password="wrong"), "mainspring/a")
    with pytest.raises(SetupError, match="rights"):
        await value(client(own_etcd.endpoint, user="mainspring", password="s3cret"), "other")
    with pytest.raises(MainspringError):
        await value(client(own_etcd.endpoint), "mainspring/a")
    # Set up anew it asks for no password, and one that is given does no harm.
    own_etcd.wipe()
    own_etcd.start()
    own_etcd.until_ready()
    await put(client(own_etcd.endpoint, user="mainspring", password="s3cret"), "mainspring/a", "x")


def certificate(directory: Path) -> tuple[Path, Path]:
    """A certificate of 127.0.0.1 that vouches for itself, and its key."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "etcd")])
    now = dt.datetime.now(dt.UTC)
    made = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(1)
        .not_valid_before(now - dt.timedelta(days=1))
        .not_valid_after(now + dt.timedelta(days=1))
        .add_extension(
            x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address("127.0.0.1"))]),
            critical=False,
        )
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .sign(key, hashes.SHA256())
    )
    cert_file, key_file = directory / "cert.pem", directory / "key.pem"
    cert_file.write_bytes(made.public_bytes(serialization.Encoding.PEM))
    key_file.write_bytes(
        key.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.NoEncryption(),
        )
    )
    return cert_file, key_file


async def test_tls(client: Opener, tmp_path: Path) -> None:
    cert_file, key_file = certificate(tmp_path)
    server = EtcdServer(
        tmp_path / "etcd", arguments=("--cert-file", str(cert_file), "--key-file", str(key_file))
    )
    server.scheme = "https"
    server.start()
    try:
        server.until_ready(f"--cacert={cert_file}")
        settings = load(
            {"etcd_url": server.url, "etcd_ca_file": str(cert_file), "coordination": "etcd"},
            directory=tmp_path,
        )
        coordination = EtcdCoordination(etcd_options(settings), "tls", SystemClock())
        session = await coordination.join("one", 5.0)
        assert (await session.view()).members == {"one"}
        await coordination.close()
        with pytest.raises(Unavailable):
            await value(client(server.endpoint), "any")
        with pytest.raises(Unavailable):
            await value(client(server.endpoint, is_secure=True), "any")
    finally:
        server.kill()


async def test_what_the_check_up_says(etcd_server: EtcdServer, tmp_path: Path) -> None:
    urls = f"{etcd_server.url},http://user:hidden@127.0.0.1:1"
    settings = load({"etcd_url": urls, "coordination": "etcd"}, directory=tmp_path)
    (here_ok, here), (gone_ok, gone) = await etcd_findings(settings)
    assert "etcd 3." in here
    assert here_ok == ("is known to lose data" not in here and "no repairs" not in here)
    assert not gone_ok
    assert "cannot be reached" in gone
    assert "hidden" not in gone
    found = [finding async for finding in findings(settings)]
    assert [finding.detail for finding in found if finding.check == "etcd"] == [here, gone]


def test_urls_are_checked_and_never_shown_with_their_password(tmp_path: Path) -> None:
    for bad in ("127.0.0.1:2379", "ftp://a:1", "http://", "http://a:1/path", "http://a:0,http://b"):
        with pytest.raises(InvalidConfiguration, match="etcd_url"):
            load({"etcd_url": bad}, directory=tmp_path)
    with pytest.raises(InvalidConfiguration, match="mixes"):
        load({"etcd_url": "http://a:1, https://b:1"}, directory=tmp_path)
    with pytest.raises(InvalidConfiguration, match="etcd_url is empty"):
        load({"coordination": "etcd"}, directory=tmp_path)
    settings = load({"etcd_url": "http://u:pa%40ss@a:1, http://u:other@[::1]"}, directory=tmp_path)
    shown = repr(settings)
    assert "pa%40ss" not in shown
    assert "other" not in shown
    options = etcd_options(settings)
    assert options.endpoints == ("a:1", "[::1]:2379")
    assert (options.user, options.password) == ("u", "pa@ss")
    missing = load({"etcd_url": "https://a", "etcd_ca_file": "no.pem"}, directory=tmp_path)
    with pytest.raises(InvalidConfiguration, match=r"no\.pem"):
        etcd_options(missing)
