"""What the metrics tell whom: the whole installation its owner, and a tenant of its own queues."""

from api.conftest import Api
from mainspring.adapters.system import SystemClock
from mainspring.api.metrics import Metrics
from mainspring.core.access import Principal
from mainspring.core.shedding import Shedder


def of(namespace: str, *queues: str) -> Principal:
    return Principal(
        key_id="k", name="k", namespace=namespace, queues=frozenset(queues) if queues else None
    )


async def test_a_tenant_sees_figures_of_its_own_queues_only(api: Api) -> None:
    async with (
        await api.client() as owner,
        await api.client(namespace="acme") as acme,
        await api.client(namespace="other") as other,
    ):
        for client, count in ((owner, 2), (acme, 3), (other, 4)):
            rare: dict[str, object] = {"task_type": "t", "queue": "rare", "labels": ["gpu"]}
            tasks = [{"task_type": "secret_type", "queue": "mail"}] * count + [rare]
            assert (await client.post("/v1/tasks/batch", json={"tasks": tasks})).status_code == 207
        # Over HTTP it is the key that says who asks.
        assert "mainspring_dead_letters" in (await owner.get("/metrics")).text
        stats = (await owner.get("/v1/stats")).json()
        assert stats["dead_letters"] == 0
        assert stats["turned_away"]
        for client in (acme, other):
            stats = (await client.get("/v1/stats")).json()
            assert stats["dead_letters"] is None
            assert stats["turned_away"] == {}
            text = (await client.get("/metrics")).text
            assert "mainspring_dead_letters" not in text
            assert "mainspring_api_answers" not in text
    clock = SystemClock()
    shedder = Shedder(api.store, clock)
    metrics = Metrics(api.store, api.store, shedder, clock)
    await shedder.sample()
    await metrics.look()

    def depths(who: Principal) -> dict[str, float]:
        lines = metrics.text(who).decode().splitlines()
        found = [line.rsplit(" ", 1) for line in lines if line.startswith("mainspring_queue_depth")]
        return {line.split('queue="')[1].split('"')[0]: float(count) for line, count in found}

    whole = depths(of("default"))
    assert {"mail": 2.0, "acme~mail": 3.0, "other~mail": 4.0}.items() <= whole.items()
    assert depths(of("acme")) == {"mail": 3.0, "rare": 1.0}
    assert depths(of("other")) == {"mail": 4.0, "rare": 1.0}
    assert depths(of("acme", "rare")) == {"rare": 1.0}
    assert depths(of("default", "mail")) == {"mail": 2.0}
    assert depths(of("nobody")) == {}
    for who in (of("acme"), of("default", "mail")):
        text = metrics.text(who).decode()
        assert "other" not in text
        assert "secret_type" not in text
        families = {line.split()[2] for line in text.splitlines() if line.startswith("# TYPE")}
        assert families == {
            "mainspring_queue_depth",
            "mainspring_oldest_task_age_seconds",
            "mainspring_held_tasks",
        }
