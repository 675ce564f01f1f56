"""A worker: the agent, and the command that starts its runners."""

import os
import sys
from typing import Final

import structlog

from mainspring.adapters.system import SystemChance, SystemClock, SystemIds
from mainspring.config import Settings
from mainspring.config.calls import signing_secrets, target_rules
from mainspring.core.registry import Registry
from mainspring.domain.priority import LANES, Level, lane_of
from mainspring.ports.store import Store
from mainspring.wiring.locks import worker_locks
from mainspring.worker.agent import Agent
from mainspring.worker.http_tasks import HttpCalls, HttpOptions, http_definitions
from mainspring.worker.options import WorkerOptions
from mainspring.worker.shell import SHELL_TYPE, shell_definition

RUNNER_MODULE: Final = "mainspring.cli.runner"


def worker_agent(store: Store, settings: Settings, registry: Registry) -> Agent:
    """Return the agent of one worker process. `settings.app` names the app its runners load; with
    none they have the built-in task types alone.
    """
    add_builtin_tasks(registry, settings)
    return Agent(
        store,
        SystemClock(),
        SystemChance(),
        registry=registry,
        worker_id=SystemIds().worker_id(),
        options=worker_options(settings),
        runner_command=[sys.executable, "-m", RUNNER_MODULE, f"--app={settings.app}"],
        log=structlog.get_logger("mainspring.worker"),
        locks=worker_locks(settings, registry),
    )


def add_builtin_tasks(registry: Registry, settings: Settings) -> None:
    """Add the task types that Mainspring brings along, where the settings want them."""
    if settings.shell_tasks and SHELL_TYPE not in registry:
        registry.add(shell_definition())
    if settings.http_tasks:
        options = HttpOptions(target_rules(settings), signing_secrets(settings))
        for definition in http_definitions(HttpCalls(options, SystemClock())):
            if definition.name not in registry:
                registry.add(definition)


def worker_options(settings: Settings) -> WorkerOptions:
    """Return a worker's options as the settings have them."""
    return WorkerOptions(
        queues=settings.queues or None,
        lanes=_lanes(settings.levels),
        labels=settings.labels,
        processes=settings.processes or _cores(),
        concurrency=settings.concurrency,
        threads=settings.threads,
        solo_processes=settings.solo_processes,
        lease_seconds=settings.lease_seconds,
        heartbeat_seconds=settings.heartbeat_seconds,
        drain_seconds=settings.drain_seconds,
        grace_seconds=settings.grace_seconds,
    )


def _lanes(levels: tuple[str, ...]) -> tuple[Level, ...] | None:
    """Batch work waits in the lane of low, so the two words mean the same here."""
    wanted = {lane_of(Level(level)) for level in levels}
    return tuple(lane for lane in LANES if lane in wanted) or None


def _cores() -> int:
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1
