from datetime import UTC, datetime
from typing import Any
from uuid import UUID

import pytest

from mainspring.adapters.postgres.submit import check_values
from mainspring.domain.errors import InvalidValue
from mainspring.domain.task import NewTask


def new_task(**fields: Any) -> NewTask:
    return NewTask(**{"id": UUID(int=1), "task_type": "mail", **fields})


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("priority", 11),
        ("max_retries", -1),
        ("timeout_seconds", 0.0),
        ("delay_seconds", -1.0),
        ("task_type", "x" * 201),
        ("scheduled_at", datetime(2250, 1, 1, tzinfo=UTC)),
        ("scheduled_at", datetime(1960, 1, 1, tzinfo=UTC)),
    ],
)
def test_a_task_that_was_changed_after_it_was_built_is_refused(field: str, value: Any) -> None:
    good = new_task(scheduled_at=datetime(2050, 1, 1, tzinfo=UTC))
    check_values([good, new_task()])
    with pytest.raises(InvalidValue) as caught:
        check_values([good, new_task(**{field: value})])
    assert caught.value.field == field
