"""Placement: tasks that need something of their worker, and the worker that gets them.

A task names labels, such as ``gpu`` or ``region=eu``; a worker offers some, and takes a task whose
labels are all among them. The tasks of a queue that need the same labels are a branch of it, and a
branch is stored as a queue of its own whose name ends in its labels, so whatever is kept by queue
is kept by branch too. The mark between the two cannot occur in a name that a caller gives.

Of several workers that could take a task that has just become due, the least loaded one does. The
others leave it alone for `PATIENCE_SECONDS` and no longer, so nothing ever depends on a worker that
was counted on and does not come.
"""

import re
from collections.abc import Collection, Iterable, Sequence
from heapq import heapify, heapreplace
from typing import Final, NamedTuple

from mainspring.domain.errors import InvalidValue
from mainspring.domain.values import shown

LABELS_MAX: Final = 8
"""Labels that one task may need."""

OFFERED_MAX: Final = 64
"""Labels that one worker may offer."""

LABEL_LENGTH_MAX: Final = 63
BRANCHES_MAX: Final = 1000
"""Branches that the queues of one namespace may have; they are remembered for ever."""

PATIENCE_SECONDS: Final = 0.2
"""How long a task that became due is left to workers that are less loaded."""

SILENT_SECONDS: Final = 15.0
"""A worker that was not seen for so long, three of its beats, is not counted on."""

NO_WORKER: Final = "no_worker"
"""The `placement` of a due task that no live worker can take."""

_LABEL: Final = re.compile(r"[A-Za-z0-9_.-]+(=[A-Za-z0-9_.-]+)?", re.ASCII)
_MARK: Final = "@"
_COMMA: Final = ","
_SHAPE: Final = (
    f"a label has 1 to {LABEL_LENGTH_MAX} letters, digits and _ . - and may have a value: gpu, "
    "region=eu"
)

Labels = tuple[str, ...]


class Load(NamedTuple):
    """A worker that offers labels, and how much of it is in use."""

    worker_id: str
    labels: Labels
    queues: tuple[str, ...] | None
    task_types: tuple[str, ...]
    slots: int
    running: int


class Young(NamedTuple):
    """What became due in a branch less than `PATIENCE_SECONDS` ago."""

    branch: str
    due: int
    task_types: tuple[str, ...]


def check_labels(value: object, field: str = "labels") -> Labels:
    """Accept the labels that a task needs: up to 8, each key once; text separates them by commas.

    Returns them sorted, in which form equal sets are equal.
    """
    labels = check_offered(value, field, LABELS_MAX)
    keys = [label.partition("=")[0] for label in labels]
    for key in keys:
        if keys.count(key) > 1:
            message = f"{field} names {shown(key)} twice; a task needs one value of a label"
            raise InvalidValue(message, field=field)
    return labels


def check_offered(value: object, field: str = "labels", most: int = OFFERED_MAX) -> Labels:
    """Accept the labels that a worker offers: up to 64, of one key as many as it likes."""
    parts = value.split(_COMMA) if isinstance(value, str) else value
    if not isinstance(parts, list | tuple | set | frozenset):
        raise InvalidValue(f"{field} is {shown(value)}; give a list of labels", field=field)
    given = [part.strip() if isinstance(part, str) else part for part in parts]
    if isinstance(value, str):
        given = [part for part in given if part]
    if len(given) > most:
        message = f"{field} has {len(given)} labels; give at most {most}"
        raise InvalidValue(message, field=field)
    return tuple(sorted({_check_label(part, field) for part in given}))


def _check_label(value: object, field: str) -> str:
    if isinstance(value, str) and len(value) <= LABEL_LENGTH_MAX and _LABEL.fullmatch(value):
        return value
    raise InvalidValue(f"{field} names {shown(value)}; {_SHAPE}", field=field)


def branch_of(queue: str, labels: Labels | None) -> str:
    """Return the name under which the tasks of a queue that need these labels are stored."""
    return f"{queue}{_MARK}{_COMMA.join(labels)}" if labels else queue


def base_of(branch: str) -> str:
    """Return the queue that a branch belongs to; a queue belongs to itself."""
    return branch.partition(_MARK)[0]


def labels_of(branch: str) -> Labels:
    """Return what the tasks of a branch need; nothing where it is a queue itself."""
    labels = branch.partition(_MARK)[2]
    return tuple(labels.split(_COMMA)) if labels else ()


def can_take(offered: Collection[str], queues: Collection[str] | None, branch: str) -> bool:
    """Whether a worker that offers these labels and serves these queues (None: all) may take the
    tasks of a branch.
    """
    is_served = queues is None or base_of(branch) in queues
    return is_served and all(label in offered for label in labels_of(branch))


def share_of(young: Young, worker_id: str, limit: int, loads: Iterable[Load]) -> int:
    """Return how many of a branch's young tasks are this worker's to take.

    They are dealt out one by one, each to the worker that is then the least loaded, by running
    tasks for each slot; among equals to the one that asks. Others are dealt to while they have a
    free slot. `limit` stands for the slots of a worker that has not registered yet.
    """
    able = [
        load
        for load in loads
        if can_take(load.labels, load.queues, young.branch)
        and not set(young.task_types).isdisjoint(load.task_types)
    ]
    mine = next((load for load in able if load.worker_id == worker_id), None)
    slots, running = (limit, 0) if mine is None else (mine.slots, mine.running)
    hands = [(running / slots, 0, running, slots)]
    hands += [
        (load.running / load.slots, place, load.running, load.slots)
        for place, load in enumerate(able, start=1)
        if load.worker_id != worker_id and load.running < load.slots
    ]
    heapify(hands)
    share = 0
    for _ in range(young.due):
        _, place, running, slots = hands[0]
        running += 1
        share += place == 0
        # A full neighbour gets nothing more; whoever asks may hold tasks ready beside its slots.
        load = running / slots if place == 0 or running < slots else float("inf")
        heapreplace(hands, (load, place, running, slots))
    return share


def dealt(
    found: Sequence[Young], worker_id: str, limit: int, loads: Sequence[Load]
) -> tuple[list[str], dict[str, int]]:
    """Return the branches that a worker may take all young tasks of, and its share of the rest."""
    shares = {young.branch: share_of(young, worker_id, limit, loads) for young in found}
    whole = [young.branch for young in found if shares[young.branch] >= young.due]
    return whole, {branch: share for branch, share in shares.items() if branch not in whole}
