"""Batches of tasks: read one by one, answered one by one."""

from collections.abc import Sequence
from typing import Any

import msgspec

from mainspring.api.errors import BatchUnanswered, MalformedRequest, problem_of
from mainspring.api.limits import BODY_BYTES_MAX, NDJSON_TYPE, decode_body
from mainspring.api.schemas import BatchItem
from mainspring.core.gateway import Outcome
from mainspring.core.json_text import refuse_double_keys
from mainspring.domain.errors import (
    InvalidValue,
    MainspringError,
    OutcomeUnknown,
    Overloaded,
    PayloadTooLarge,
    QuotaExceeded,
    Unavailable,
)
from mainspring.domain.task import Submission
from mainspring.domain.values import BATCH_MAX


class _RawBatch(msgspec.Struct, forbid_unknown_fields=True):
    tasks: list[msgspec.Raw]


def batch_items(body: bytes, content_type: str) -> list[Any]:
    """Return the tasks of a batch as values, each that cannot be read as its error."""
    if content_type == NDJSON_TYPE:
        raw: list[bytes] = [line for line in body.split(b"\n") if line.strip()]
        if not raw:
            raise MalformedRequest("the body is empty; send a task a line")
    else:
        raw = [bytes(item) for item in _raw_batch(body)]
    if len(raw) > BATCH_MAX:
        message = f"tasks has {len(raw):,} entries; send at most {BATCH_MAX:,} at once"
        raise PayloadTooLarge(message, field="tasks")
    return [_item(data, place) for place, data in enumerate(raw)]


def _raw_batch(body: bytes) -> list[msgspec.Raw]:
    if not body:
        raise MalformedRequest('the body is empty; send {"tasks": [...]}')
    try:
        batch = msgspec.json.decode(body, type=_RawBatch)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        message = f"the body is not an object with a list of tasks: {error}"
        raise MalformedRequest(message) from None
    if body.count(b'"tasks"') != 1 or b"\\u00" in body:
        # The word may stand in a payload as well; a second key of this name would hide the first.
        try:
            refuse_double_keys(body, "body")
        except InvalidValue as error:
            raise MalformedRequest(error.message) from None
    return batch.tasks


def _item(data: bytes, place: int) -> Any:
    """Return the value of one task of a batch, or its error in the place of it."""
    try:
        return decode_body(data, BODY_BYTES_MAX, f"tasks[{place}]")
    except MainspringError as error:
        return error


def batch_results(outcomes: Sequence[Outcome]) -> list[BatchItem]:
    """Return what became of each task; raises if the store answered for none of them, because that
    is no answer to a batch.
    """
    results = [_batch_item(outcome) for outcome in outcomes]
    if not outcomes or not all(map(_is_unanswered, outcomes)):
        return results
    if any(isinstance(outcome, OutcomeUnknown) for outcome in outcomes):
        message = (
            f"the task store did not answer in time for any of the {len(outcomes):,} tasks, so "
            "some may be stored; send the batch again if each has a key, or look for their ids"
        )
        raise BatchUnanswered(message, results=tuple(results))
    first = outcomes[0]
    assert isinstance(first, MainspringError)
    raise first


def _is_unanswered(outcome: Outcome) -> bool:
    return isinstance(outcome, Unavailable) and not isinstance(outcome, QuotaExceeded | Overloaded)


def _batch_item(outcome: Outcome) -> BatchItem:
    if isinstance(outcome, Submission):
        return BatchItem(status=201 if outcome.is_new else 200, task_id=outcome.id)
    problem = problem_of(outcome)
    return BatchItem(
        status=problem.status, code=problem.code, detail=problem.detail, field=problem.field
    )
