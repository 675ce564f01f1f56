"""What must be true when everything has come to rest."""

from mainspring.domain.task import ATTEMPTS_KEPT
from simulation.audit import DONE, Audit, S
from simulation.world import World

LATENESS_SECONDS = 2.0
CANCEL_SECONDS = 1.5


async def check_end(world: World) -> None:
    """Hold the final state of the store against what its users were told."""
    audit = world.audit
    for client in world.clients:
        for task_id in client.acknowledged:
            audit.check(task_id in audit.records, "I1", task_id, "was accepted and is lost")
    asked = {task_id for client in world.clients for task_id in client.asked}
    for task_id, record in audit.records.items():
        audit.check(task_id in asked, "I2", task_id, "was never submitted")
        audit.check(record.status in DONE, "I3", task_id, f"is still {record.status}")
        task = await world.store.get(task_id)
        audit.check(task is not None, "I1", task_id, "is gone")
        if task is not None:
            same = task.status is record.status and task.attempt_count == record.charged
            audit.check(same, "I4", task_id, f"is {task.status} and was {record.status}")
            kept = len(task.attempts) == min(record.failures, ATTEMPTS_KEPT)
            audit.check(kept, "I11", task_id, f"shows {len(task.attempts)} failures")
            audit.check(
                record.status is not S.COMPLETED or record.completed_by is not None,
                "I12",
                task_id,
                "is completed by nobody",
            )
    for task_id in audit.refused:
        audit.check(task_id not in audit.records, "I21", task_id, "was refused and stored")
    audit.check(not audit.executions, "I23", "all", "something still runs")
    taken = {place: count for place, count in audit.places.taken.items() if count}
    audit.check(not taken, "I23", "all", f"places are still taken: {taken}")
    lines = audit.tables.gates.lines
    audit.check(not lines, "I23", "all", f"{len(lines)} lines are not empty")
    for process, error in world.faults:
        audit.check(False, "I38", process, f"came to a stop: {error!r}")
    if world.is_calm:
        _check_calm(world, audit)


def _check_calm(world: World, audit: Audit) -> None:
    """Bounds that hold where nothing goes wrong and slots are free."""
    audit.check(
        audit.longest_wait <= LATENESS_SECONDS,
        "I7",
        "all",
        f"a task waited {audit.longest_wait} s",
    )
    audit.check(audit.counts["rescue"] == 0, "P5", "all", "a living worker was robbed")
    for task_id, told_at in world.told_workers.items():
        asked_at = world.told_cancelling.get(task_id)
        if asked_at is not None:
            late = told_at - asked_at
            audit.check(late <= CANCEL_SECONDS, "I19", task_id, f"was told {late} s later")
