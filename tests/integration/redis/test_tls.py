"""A server, a cluster and what sentinels watch, all of which speak TLS."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from api.certificates import Authority
from fixtures.valkey import ValkeyCluster, ValkeyServer, WatchedValkey, until
from integration.redis.bench import SLICES, Bench, Opener, fed_again
from mainspring.adapters.redis import link as links
from mainspring.adapters.redis import routed
from mainspring.config import Settings
from mainspring.ports.ready_queue import ReadyQueueUnavailable
from mainspring.wiring.redis import redis_link

pytestmark = pytest.mark.postgres


@pytest.fixture(autouse=True)
def patience(monkeypatch: pytest.MonkeyPatch) -> None:
    """A handshake takes its time on a busy machine, and is what is tried here."""
    monkeypatch.setattr(links, "CALL_SECONDS", 10.0)
    monkeypatch.setattr(links, "_DEADLINE_SECONDS", 20.0)
    monkeypatch.setattr(routed, "_LOOK_SECONDS", 20.0)


@pytest.fixture
def authority(tmp_path: Path) -> Authority:
    return Authority(tmp_path, "ours")


@pytest.fixture
def start() -> Iterator[Callable[[ValkeyServer | ValkeyCluster | WatchedValkey], None]]:
    """Starts what the test made, and ends it."""
    started: list[ValkeyServer | ValkeyCluster | WatchedValkey] = []

    def start_one(server: ValkeyServer | ValkeyCluster | WatchedValkey) -> None:
        started.append(server)
        server.start()

    yield start_one
    for server in started:
        server.kill()


async def is_refused(settings: Settings) -> None:
    link = redis_link(settings)
    with pytest.raises(ReadyQueueUnavailable, match="certificate verify failed"):
        await link.servers()
    await link.close()


async def works(bench: Bench) -> None:
    ids = await bench.submit(30)
    assert await bench.held() == 30
    assert {lease.id for lease in await bench.claim()} == {*ids}


async def test_a_server(
    opener: Opener,
    start: Callable[[ValkeyServer], None],
    authority: Authority,
    tmp_path: Path,
) -> None:
    server = ValkeyServer(tmp_path / "server", authority=authority)
    start(server)
    await works(await opener(server.url, 1, redis_ca_file=str(authority.file)))
    for other in ("", str(Authority(tmp_path, "theirs").file)):
        await is_refused(Settings(redis_url=server.url, redis_ca_file=other))


async def test_a_cluster(
    opener: Opener,
    start: Callable[[ValkeyCluster], None],
    authority: Authority,
    valkey_prefix: str,
    tmp_path: Path,
) -> None:
    cluster = ValkeyCluster(tmp_path / "cluster", authority=authority)
    start(cluster)
    bench = await opener(cluster.url, redis_ca_file=str(authority.file))
    await works(bench)
    key = f"{{{valkey_prefix}:0}}:"
    slot = cluster.nodes[0].ask("CLUSTER", "KEYSLOT", key)[1:].strip()
    old = cluster.node_of(key)
    new = next(node for node in cluster.nodes if node is not old)
    name = new.ask("CLUSTER", "MYID").split("\r\n")[1]
    assert old.ask("FLUSHALL") == "+OK\r\n"
    for node in (new, old):
        assert node.ask("CLUSTER", "SETSLOT", slot, "NODE", name) == "+OK\r\n"
    await fed_again(bench)
    assert (await bench.store.ready_queue.figures()).fed == SLICES
    assert new.ask("EXISTS", f"{key}fed") == ":1\r\n"
    await works(bench)
    await is_refused(Settings(redis_url=cluster.url))


async def test_what_sentinels_watch(
    opener: Opener, start: Callable[[WatchedValkey], None], authority: Authority, tmp_path: Path
) -> None:
    watched = WatchedValkey(tmp_path / "watched", authority)
    start(watched)
    about = {
        "redis_ca_file": str(authority.file),
        "redis_sentinel_password": watched.sentinel_password,
    }
    bench = await opener(watched.url, 1, **about)
    await works(bench)
    watched.first.kill()
    ask = watched.sentinel.ask
    port = str(watched.second.tls_port)
    until(lambda: port in ask("SENTINEL", "GET-MASTER-ADDR-BY-NAME", "main"), "switched")
    await fed_again(bench)
    await works(bench)
    await is_refused(Settings(redis_url=watched.url))
