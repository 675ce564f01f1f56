"""Storing what handlers say about how far they are."""

from mainspring.domain.errors import Unavailable
from mainspring.ports.store import TaskStore
from mainspring.worker.held import Held


async def send_progress(store: TaskStore, held: Held) -> bool:
    """Store the newest progress of an attempt, if there is one that is not stored yet.

    False: the lease is lost. What an outage keeps from being stored is kept for another try,
    unless the handler says something newer meanwhile.
    """
    progress, held.progress = held.progress, None
    if progress is None:
        return True
    try:
        return await store.progress(held.reference, progress)
    except Unavailable:
        if held.progress is None:
            held.progress = progress
        raise
