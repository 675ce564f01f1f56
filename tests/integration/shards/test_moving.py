"""Partitions move from one shard to another under load: nothing is lost, nothing is there twice."""

import asyncio

import pytest

from integration.shards.movers import MOVED, Movers, check_settled
from integration.shards.traffic import CLOCK, Traffic
from mainspring.config import Settings
from mainspring.domain.errors import Conflict, NotFound
from mainspring.ports.hooks import HookPoint
from mainspring.wiring.moving import removals

pytestmark = [pytest.mark.postgres, pytest.mark.fault]

POINTS = [point for point in HookPoint if point.value.startswith("move.")]


async def test_moves_under_load_whoever_dies(
    fresh: tuple[Settings, list[str]], movers: Movers, traffic: Traffic
) -> None:
    settings, dsns = fresh
    said: list[str] = []
    await CLOCK.sleep(1.2)
    seconds = await removals(settings, said.append).move(MOVED, 1)
    print(f"refused for {seconds:.2f} s; {said}")
    await check_settled(dsns, 1)
    for number, point in enumerate(POINTS):
        target = number % 2
        async with asyncio.timeout(30):
            await movers.killed_at(point, target)
        print(f"killed at {point}")
        with pytest.raises(Conflict, match="a move is under way, of the partitions 16-31 to shard"):
            await removals(settings, print).move((1, 2), 1)
        seconds = await removals(settings, said.append).resume()
        print(f"refused for {seconds:.2f} s")
        await check_settled(dsns, target)
    with pytest.raises(NotFound):
        await removals(settings, print).resume()
    await traffic.stop()
    await traffic.drained()
    await traffic.check(dsns)
    print(f"{len(traffic.accepted)} tasks")
    assert traffic.refused == []
