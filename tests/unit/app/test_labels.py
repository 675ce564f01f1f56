"""Labels of tasks in Python, on the store in memory."""

import pytest

from mainspring import InvalidValue, KeyConflict, Mainspring, Settings
from mainspring.core.options import DEFAULTS, checked_options, fingerprint
from mainspring.testing import TestApp


@pytest.fixture
def app() -> Mainspring:
    app = Mainspring(Settings())

    @app.schedule(every=60, name="nightly")
    @app.task(labels=["region=eu", "gpu"], queue="ml")
    async def train(model: str = "small") -> str:
        return model

    return app


async def test_tasks_need_what_their_type_or_their_submission_says(app: Mainspring) -> None:
    train = app.registry.get("train")
    assert train.labels == ("gpu", "region=eu")
    async with TestApp(app) as t:
        by_type = await app.submit("train")
        other = await app.submit("train", labels="fast", key="k")
        none = await app.submit("train", labels=[])
        again = await app.submit("train", labels=["fast"], key="k")
        assert (again.id, again.is_new) == (other.id, False)
        with pytest.raises(KeyConflict):
            await app.submit("train", key="k")
        shown = [await handle.refresh() for handle in (by_type, other, none)]
        assert [(one.queue, one.labels) for one in shown] == [
            ("ml", ("gpu", "region=eu")),
            ("ml", ("fast",)),
            ("ml", ()),
        ]
        assert [one.placement for one in shown] == ["no_worker", "no_worker", None]
        assert await t.run_until_idle() == 3
        assert (await other.refresh()).result == "small"


async def test_runs_of_a_schedule_need_what_the_type_says(app: Mainspring) -> None:
    async with TestApp(app) as t:
        schedule = await app.schedules.get("nightly")
        assert (schedule.queue, schedule.labels) == ("ml", ("gpu", "region=eu"))
        assert await t.advance(60) == 1
        await app.schedules.update("nightly", labels=["fast"])
        schedule = await app.schedules.get("nightly")
        assert (schedule.queue, schedule.labels) == ("ml", ("fast",))


def test_wrong_labels_are_refused_where_they_are_written() -> None:
    app = Mainspring(Settings())
    with pytest.raises(InvalidValue, match="labels names 'a b'"):
        app.task(labels=["a b"])


def test_keys_from_before_there_were_labels_still_fit() -> None:
    options = checked_options({"queue": "q", "key": "k"}).over(DEFAULTS)
    digest = fingerprint("t", "{}", options)
    assert digest == "c1114d75607c24c9a00d6af89419d9b8f19375e34785f3ab974a8f05fed4bc87"
