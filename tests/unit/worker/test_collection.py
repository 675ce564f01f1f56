import gc
from collections.abc import Iterator

import pytest

from mainspring.worker.collection import YOUNG_OBJECTS, collect_rarely


@pytest.fixture(autouse=True)
def _collector() -> Iterator[None]:
    before = gc.get_threshold()
    yield
    gc.unfreeze()
    gc.set_threshold(*before)


def test_collections_become_rare_and_what_was_there_is_left_out() -> None:
    gc.set_threshold(700, 10, 10)
    collect_rarely()
    assert gc.get_threshold()[0] == YOUNG_OBJECTS
    assert gc.get_freeze_count() > 0


@pytest.mark.parametrize("chosen", [0, YOUNG_OBJECTS, 50_000])
def test_what_an_app_has_chosen_is_left_as_it_is(chosen: int) -> None:
    gc.set_threshold(chosen, 10, 10)
    collect_rarely()
    assert gc.get_threshold()[0] == chosen
