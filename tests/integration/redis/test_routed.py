"""The store with its ready queue in a cluster and behind sentinels, on real servers."""

import asyncio

import pytest

from fixtures.valkey import ValkeyCluster, WatchedValkey, until
from integration.redis.bench import SLICES, Opener, fed_again
from mainspring.adapters.postgres import queued
from mainspring.config import Settings
from mainspring.domain.ids import partition_of
from mainspring.domain.task import Completed, Settlement
from mainspring.ports.ready_queue import ReadyQueueUnavailable
from mainspring.wiring.redis import redis_findings

pytestmark = pytest.mark.postgres


async def test_slices_are_spread_over_a_cluster(
    opener: Opener, valkey_cluster: ValkeyCluster, valkey_prefix: str
) -> None:
    bench = await opener(valkey_cluster.url)
    ids = await bench.submit(60)
    assert await bench.held() == 60
    for number in range(SLICES):
        prefix = f"{{{valkey_prefix}:{number}}}:"
        held = valkey_cluster.node_of(prefix).ask("ZCARD", f"{prefix}r:5 default mail")
        assert int(held[1:]) == sum(partition_of(each, SLICES) == number for each in ids)
    nodes = {valkey_cluster.node_of(f"{{{valkey_prefix}:{n}}}:").port for n in range(SLICES)}
    assert len(nodes) > 1, "the names of the slices fell on one node"
    leases = await bench.claim(40) + await bench.claim(40)
    assert {lease.id for lease in leases} == {*ids}
    ended = [Settlement(lease.id, lease.fencing_token, Completed(None)) for lease in leases]
    assert all(await bench.store.settle(ended))
    await bench.store.pause("default")
    await bench.submit()
    assert await bench.claim() == []
    await bench.store.resume("default")
    assert len(await bench.claim()) == 1


async def test_a_slice_that_is_moved_to_another_node(
    opener: Opener, valkey_cluster: ValkeyCluster, valkey_prefix: str
) -> None:
    bench = await opener(valkey_cluster.url, 1)
    prefix = f"{{{valkey_prefix}:0}}:"
    slot = valkey_cluster.nodes[0].ask("CLUSTER", "KEYSLOT", prefix)[1:].strip()
    old = valkey_cluster.node_of(prefix)
    new = next(node for node in valkey_cluster.nodes if node is not old)
    names = {node: node.ask("CLUSTER", "MYID").split("\r\n")[1] for node in (old, new)}
    await bench.submit(5)
    assert await bench.held() == 5
    new.ask("CLUSTER", "SETSLOT", slot, "IMPORTING", names[old])
    old.ask("CLUSTER", "SETSLOT", slot, "MIGRATING", names[new])
    try:
        with pytest.raises(ReadyQueueUnavailable, match="moves this part"):
            await bench.store.ready_queue.figures()
        # Nothing was made on the new node, where it would be in the way of what is moved.
        assert new.ask("CLUSTER", "COUNTKEYSINSLOT", slot) == ":0\r\n"
        assert len(await bench.claim(2)) == 2
        keys = old.ask("CLUSTER", "GETKEYSINSLOT", slot, "99").split("\r\n")
        for key in keys[2::2]:
            moved = old.ask("MIGRATE", "127.0.0.1", str(new.port), key, "0", "1000")
            assert moved == "+OK\r\n", (key, moved)
    finally:
        for node in (new, old):
            assert node.ask("CLUSTER", "SETSLOT", slot, "NODE", names[new]) == "+OK\r\n"
    # Not before it is fed may it be found that two were taken past the queue meanwhile.
    assert await bench.held() == 5
    assert len(await bench.claim()) == 3
    await bench.submit(3)
    assert await bench.held() == 3
    assert len(await bench.claim()) == 3


async def test_a_slice_that_the_servers_move_by_themselves(
    opener: Opener, valkey_cluster: ValkeyCluster, valkey_prefix: str
) -> None:
    """As a whole, which Valkey 9 does; until then nobody notices."""
    bench = await opener(valkey_cluster.url, 1)
    prefix = f"{{{valkey_prefix}:0}}:"
    slot = valkey_cluster.nodes[0].ask("CLUSTER", "KEYSLOT", prefix)[1:].strip()
    old = valkey_cluster.node_of(prefix)
    new = next(node for node in valkey_cluster.nodes if node is not old)
    name = new.ask("CLUSTER", "MYID").split("\r\n")[1]
    ids = await bench.submit(5)
    assert await bench.held() == 5
    leases = await bench.claim(2)
    said = old.ask("CLUSTER", "MIGRATESLOTS", "SLOTSRANGE", slot, slot, "NODE", name)
    if said.startswith("-ERR unknown subcommand"):
        pytest.skip("this server moves keys one by one")
    assert said == "+OK\r\n"
    until(lambda: new.ask("EXISTS", f"{prefix}fed").startswith(":"), "the slice has moved")
    assert await bench.held() == 3
    leases += await bench.claim()
    assert {lease.id for lease in leases} == {*ids}
    await bench.feed()
    await bench.submit(3)
    assert await bench.held() == 3
    assert len(await bench.claim()) == 3


async def test_a_node_that_is_lost_takes_only_its_slices_along(
    opener: Opener, valkey_cluster: ValkeyCluster, valkey_prefix: str
) -> None:
    bench = await opener(valkey_cluster.url)
    lost = valkey_cluster.node_of(f"{{{valkey_prefix}:0}}:")
    gone = {
        number
        for number in range(SLICES)
        if valkey_cluster.node_of(f"{{{valkey_prefix}:{number}}}:") is lost
    }
    ids = await bench.submit(60)
    assert await bench.held() == 60
    lost.kill()
    try:
        rest = {each for each in ids if partition_of(each, SLICES) not in gone}
        loop = asyncio.get_running_loop()
        started = loop.time()
        taken = await bench.claim(len(rest))
        assert {lease.id for lease in taken} == rest
        assert loop.time() - started < 2
        # What the lost node had is found in the database.
        assert {lease.id for lease in await bench.claim()} == {*ids} - rest
        more = await bench.submit(30)
        with pytest.raises(ReadyQueueUnavailable):
            await bench.feed()
        assert {lease.id for lease in await bench.claim()} == {*more}
    finally:
        lost.start()
        until(lambda: valkey_cluster.knows_all(lost), "the lost node is back")
    await bench.submit(30)
    await fed_again(bench)
    assert await bench.held() == 30
    assert len(await bench.claim()) == 30


async def test_a_replica_takes_over_without_what_was_acknowledged_last(
    opener: Opener, watched_valkey: WatchedValkey
) -> None:
    watched = watched_valkey
    bench = await opener(watched.url, 1, redis_sentinel_password=watched.sentinel_password)
    early = await bench.submit(5)
    assert len(await bench.claim(2)) == 2
    assert await bench.held() == 3
    until(lambda: copied(watched), "the replica has all")
    watched.second.pause()
    late = await bench.submit(5)
    assert await bench.held() == 8
    watched.first.kill()
    watched.second.resume()
    # Meanwhile work goes on from the database.
    (lease,) = await bench.claim(1)
    until(lambda: str(watched.second.port) in master(watched), "another server is the first")
    assert await fed_again(bench) >= 5
    claimed = await bench.claim()
    assert {each.id for each in claimed} == {*early[2:], *late} - {lease.id}
    await bench.submit(2)
    assert await bench.held() == 2
    # The old one comes back as a replica; who still asks it hears of the new one.
    watched.first.start()
    assert len(await bench.claim()) == 2


async def test_a_first_that_comes_back_with_what_it_knew_leads_nobody_astray(
    opener: Opener, watched_valkey: WatchedValkey
) -> None:
    """It stood still while the replica took over, and a worker has not asked meanwhile."""
    watched = watched_valkey
    known = {"redis_sentinel_password": watched.sentinel_password}
    bench = await opener(watched.url, 1, **known)
    asleep = await opener(watched.url, 1, **known)
    early = await bench.submit(3)
    assert await bench.held() == 3
    watched.first.pause()
    try:
        until(lambda: str(watched.second.port) in master(watched), "another server is the first")
        await fed_again(bench)
        leases = await bench.claim()
        assert {lease.id for lease in leases} == {*early}
        ended = [Settlement(lease.id, lease.fencing_token, Completed(None)) for lease in leases]
        assert all(await bench.store.settle(ended))
        late = await bench.submit(2)
        await bench.store.publisher.sent()
    finally:
        watched.first.resume()
    asleep.store._look_seconds = queued.LOOK_SECONDS
    asleep.store._look_at = 0.0
    found: list[object] = []
    async with asyncio.timeout(20):
        while len(found) < len(late):
            found += [lease.id for lease in await asleep.claim()]
    assert {*found} == {*late}


def copied(watched: WatchedValkey) -> bool:
    sizes = [server.ask("DBSIZE") for server in (watched.first, watched.second)]
    return sizes[0] == sizes[1] and "slave0" in watched.first.ask("INFO", "replication")


def master(watched: WatchedValkey) -> str:
    return watched.sentinel.ask("SENTINEL", "GET-MASTER-ADDR-BY-NAME", "main")


async def test_a_server_that_became_a_replica_is_left(
    opener: Opener, watched_valkey: WatchedValkey
) -> None:
    password = watched_valkey.sentinel_password
    bench = await opener(watched_valkey.url, 1, redis_sentinel_password=password)
    ask = watched_valkey.sentinel.ask
    # Until it knows the replica well enough it says that there is no suitable one.
    until(lambda: ask("SENTINEL", "FAILOVER", "main").startswith("+OK"), "a failover")
    until(lambda: str(watched_valkey.second.port) in master(watched_valkey), "switched")
    await fed_again(bench)
    ids = await bench.submit(3)
    assert await bench.held() == 3
    assert {lease.id for lease in await bench.claim()} == {*ids}


async def test_doctor_looks_at_every_node(
    opener: Opener, valkey_cluster: ValkeyCluster, valkey_prefix: str
) -> None:
    await opener(valkey_cluster.url)
    settings = Settings(
        ready_queue="redis",
        redis_url=valkey_cluster.url,
        redis_prefix=valkey_prefix,
        redis_slices=SLICES,
    )
    ((is_well, said),) = await redis_findings(settings)
    assert is_well, said
    assert f"{SLICES} of {SLICES} slices fed" in said
    node = valkey_cluster.nodes[2]
    node.ask("CONFIG", "SET", "maxmemory-policy", "allkeys-lru")
    try:
        ((is_well, said),) = await redis_findings(settings)
    finally:
        node.ask("CONFIG", "SET", "maxmemory-policy", "noeviction")
    assert not is_well
    assert "may drop keys" in said
