"""Interrupting a thread at any moment ends its job once and leaves the thread usable."""

import queue
import random
import time

from mainspring.core.definitions import define
from mainspring.domain.task import Cancelled, Completed
from mainspring.worker.execution import Execution, Prepared
from mainspring.worker.messages import StopReason
from mainspring.worker.threads import HandlerThreads, ThreadJob
from manual_clock import ManualClock
from unit.worker.making import Link, make_lease


def spin() -> str:
    for _ in range(2000):
        pass
    return "done"


def for_ever() -> None:
    while True:
        pass


def job_of(number: int, prepared: Prepared) -> ThreadJob:
    execution = Execution(
        prepared, make_lease(), clock=ManualClock(), jitter=0.0, link=Link(), ends_at=1.0
    )
    return ThreadJob(number, execution)


def stop(threads: HandlerThreads, job: ThreadJob) -> None:
    job.execution.stopped_by = StopReason.CANCEL
    threads.interrupt(job)


def test_a_job_that_never_ends_by_itself_is_interrupted() -> None:
    ended: queue.SimpleQueue[ThreadJob] = queue.SimpleQueue()
    began: queue.SimpleQueue[int] = queue.SimpleQueue()
    threads = HandlerThreads(began.put, ended.put)
    job = job_of(1, Prepared(define("work", for_ever)))
    threads.submit(job)
    assert began.get(timeout=5) == 1
    stop(threads, job)
    assert ended.get(timeout=5) is job
    assert job.ending == Cancelled()


def test_an_interruption_at_any_moment_ends_the_job_once(rng: random.Random) -> None:
    ended: queue.SimpleQueue[ThreadJob] = queue.SimpleQueue()
    threads = HandlerThreads(lambda _: None, ended.put)
    prepared = Prepared(define("work", spin))
    endings: dict[str, int] = {}
    for number in range(3000):
        job = job_of(number, prepared)
        threads.submit(job)
        until = time.perf_counter() + rng.random() * 150e-6
        while time.perf_counter() < until:
            pass
        stop(threads, job)
        assert ended.get(timeout=5) is job
        assert job.ending in (Cancelled(), Completed('"done"'))
        kind = type(job.ending).__name__
        endings[kind] = endings.get(kind, 0) + 1
    assert ended.empty()
    assert threads._threads <= 2
    assert set(endings) <= {"Cancelled", "Completed"}


def test_a_thread_that_was_interrupted_too_late_runs_the_next_job_undisturbed() -> None:
    ended: queue.SimpleQueue[ThreadJob] = queue.SimpleQueue()
    threads = HandlerThreads(lambda _: None, ended.put)
    prepared = Prepared(define("work", spin))
    for number in range(200):
        first = job_of(number, prepared)
        threads.submit(first)
        ended.get(timeout=5)
        stop(threads, first)
        second = job_of(number, prepared)
        threads.submit(second)
        ended.get(timeout=5)
        assert second.ending == Completed('"done"')
