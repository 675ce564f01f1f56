"""What the metrics say of schedulers, which may run in other processes than the API."""

from api.conftest import Api
from mainspring.adapters.system import SystemClock
from mainspring.api.metrics import Metrics
from mainspring.core.shedding import THRESHOLDS, Shedder


async def test_partitions_and_the_last_round(api: Api) -> None:
    clock = SystemClock()
    metrics = Metrics(api.store, api.store, Shedder(api.store, clock, THRESHOLDS), clock)
    await metrics.look()
    before = metrics.text().decode()
    assert "mainspring_scheduler_owned_partitions 0.0" in before
    assert "last_tick_timestamp_seconds" not in before
    await api.store.raise_epochs([3, 4], "scheduler-1")
    await api.store.note_round()
    await metrics.look()
    after = dict(line.rsplit(" ", 1) for line in metrics.text().decode().splitlines())
    assert after["mainspring_scheduler_owned_partitions"] == "2.0"
    noted = await api.store.last_round()
    assert noted is not None
    assert float(after["mainspring_scheduler_last_tick_timestamp_seconds"]) == noted.timestamp()
