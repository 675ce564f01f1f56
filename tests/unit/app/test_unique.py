"""Group and unique keys in an app: given, or made from the payload."""

from datetime import date
from typing import Any

import pytest

from mainspring import InvalidValue, Mainspring, Settings
from mainspring.domain.errors import UniqueKeyTaken
from mainspring.domain.ids import key_tail
from mainspring.testing import TestApp


@pytest.fixture
def app() -> Mainspring:
    app = Mainspring(Settings())

    @app.task(
        unique_key=lambda customer, day=date(2026, 1, 1): f"sync:{customer}:{day.year}",
        group_key=lambda customer: None if customer < 0 else str(customer),
        max_retries=0,
    )
    def sync(customer: int, day: date = date(2026, 5, 1), *, fails: bool = False) -> int:
        assert not fails
        return customer

    @app.task(group_key="mail")
    def mail(to: str) -> None: ...

    return app


async def test_keys_follow_from_the_payload_as_the_handler_gets_it(app: Mainspring) -> None:
    async with TestApp(app) as test:
        sync = app.registry.get("sync")
        assert sync.unique_key is not None
        first = await app.submit("sync", {"customer": 7, "day": "2027-05-01"})
        task = await first.refresh()
        assert (task.unique_key, task.group_key) == ("sync:7:2027", "7")
        assert first.id.int & 0xFFFF == key_tail("7")
        again = await app.submit("sync", {"customer": 7, "day": date(2027, 12, 31)})
        assert (again.id, again.is_new) == (first.id, False)
        # What is not in the payload is the function's own default, and None is no key.
        other = await (await app.submit("sync", {"customer": -1})).refresh()
        assert (other.unique_key, other.group_key) == ("sync:-1:2026", None)
        assert (await (await app.submit("mail", {"to": "a"})).refresh()).group_key == "mail"
        assert await test.run_until_idle() == 3
        assert (await app.submit("sync", {"customer": 7, "day": "2027-05-01"})).is_new


async def test_what_a_submission_gives_comes_first(app: Mainspring) -> None:
    async with TestApp(app):
        given: dict[str, Any] = {"unique_key": "u", "group_key": "g"}
        task = await (await app.submit("sync", {"customer": 7}, **given)).refresh()
        assert (task.unique_key, task.group_key) == ("u", "g")
        with pytest.raises(InvalidValue, match="task type 'sync' has a unique key of its own"):
            await app.submit("sync", {"customer": 7}, key="k")
        keyed = await (await app.submit("mail", {"to": "a"}, key="k")).refresh()
        assert (keyed.group_key, keyed.key) == ("mail", "k")
        assert [task.key async for task in app.tasks(group_key="mail")] == ["k"]
        with pytest.raises(InvalidValue, match="a group key has 1 to 255"):
            await anext(app.tasks(group_key=""))


async def test_a_dead_letter_of_a_key_that_is_live_is_not_replayed(app: Mainspring) -> None:
    async with TestApp(app) as test:
        dead = await app.submit("sync", {"customer": 7, "fails": True})
        await test.run_until_idle()
        live = await app.submit("sync", {"customer": 7}, delay=60)
        assert live.is_new
        with pytest.raises(
            UniqueKeyTaken, match=f"task {dead.id} has the unique key 'sync:7:2026'"
        ):
            await app.replay(dead.id)
        await live.cancel()
        assert await app.replay(dead.id, payload={"customer": 7}) == [dead.id]
        assert await test.run_until_idle() == 1


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"unique_key": lambda user: user}, "takes user, which is no parameter of the handler"),
        ({"unique_key": lambda *parts: parts[0]}, "takes parts, which is no parameter"),
        ({"group_key": 7}, "group_key is a number; give text, or a function"),
        ({"group_key": ""}, "group_key is ''; a group key has 1 to 255"),
    ],
)
def test_what_could_never_be_a_key_is_refused_at_once(
    options: dict[str, Any], message: str
) -> None:
    app = Mainspring(Settings())
    with pytest.raises(InvalidValue, match=message):
        app.task(**options)(lambda_handler)


def lambda_handler(customer: int) -> None:
    del customer


async def test_a_function_that_returns_no_key_is_an_error_of_the_submission() -> None:
    app = Mainspring(Settings())
    app.task("t", unique_key=lambda **values: values["a"])(lambda_free)
    async with TestApp(app):
        with pytest.raises(InvalidValue, match="unique_key is 7; a unique key has 1 to 255"):
            await app.submit("t", {"a": 7})
        assert (await (await app.submit("t", {"a": "x", "b": 1})).refresh()).unique_key == "x"


def lambda_free(**values: object) -> None:
    del values
