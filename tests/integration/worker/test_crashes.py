"""Processes that die take no more with them than they must."""

from integration.worker.bench import SOON, Bench, until
from mainspring.domain.status import TaskStatus
from mainspring.domain.task import FailureKind


async def test_poison_ends_in_the_dead_letters_and_its_neighbours_do_not(bench: Bench) -> None:
    agents = [bench.start(concurrency=4), bench.start(concurrency=4)]
    good = await bench.submit_many(
        [("good", {"log": bench.log, "name": f"g{n}"}) for n in range(150)]
    )
    poison = await bench.submit_many([("poison", {"log": bench.log})] * 3, max_retries=2)
    good += await bench.submit_many(
        [("good", {"log": bench.log, "name": f"h{n}"}) for n in range(150)]
    )
    for task in await bench.ended(*poison, seconds=60):
        assert (task.status, task.attempt_count) == (TaskStatus.FAILED, 3)
        assert {attempt.kind for attempt in task.attempts} == {FailureKind.CRASHED}
        assert "SIGKILL" in (task.last_error or "")
    # Two of them may have been in one process when the first of them ended it.
    assert 7 <= bench.count("poison") <= 9
    for task in await bench.ended(*good, seconds=60):
        assert task.status is TaskStatus.COMPLETED
        assert len(task.attempts) <= 1
    crashes = sum(agent.stats.runners_crashed for agent in agents)
    assert crashes == bench.count("poison")


async def test_a_worker_goes_on_after_its_runner_died(bench: Bench) -> None:
    agent = bench.start()
    await bench.ended(await bench.submit("poison", {"log": bench.log}, max_retries=0))
    tasks = await bench.ended(*await bench.submit_many([("echo", {"value": 1})] * 50))
    assert {task.status for task in tasks} == {TaskStatus.COMPLETED}
    await until(lambda: agent.stats.completed == 50)


async def test_a_task_that_crashed_before_runs_alone(bench: Bench) -> None:
    bench.start()
    crashed = await bench.submit("poison", {"log": bench.log}, max_retries=1, backoff=SOON)
    await bench.noted("poison")
    beside = await bench.submit_many(
        [("good", {"log": bench.log, "name": "beside", "seconds": 1.0})] * 5
    )
    await bench.ended(crashed)
    for task in await bench.ended(*beside):
        assert task.attempts == ()
