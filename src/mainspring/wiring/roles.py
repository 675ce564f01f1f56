"""What the long-running processes do between start and stop."""

import asyncio
from collections.abc import Callable, Coroutine
from contextlib import suppress
from functools import partial
from typing import Any, NamedTuple

from mainspring.adapters.open_files import raise_open_files
from mainspring.config import Settings, export
from mainspring.core.readiness import OK
from mainspring.core.registry import Registry
from mainspring.ports.coordination import Coordination
from mainspring.ports.store import Store
from mainspring.scheduler.ownership import Ownership
from mainspring.wiring.api import api_running
from mainspring.wiring.checkup import risks
from mainspring.wiring.coordination import forget_schedulers, open_coordination
from mainspring.wiring.health import health_served
from mainspring.wiring.own_database import database
from mainspring.wiring.scheduler import (
    alert_of,
    deploy_schedules,
    scheduler_ownership,
    scheduler_service,
)
from mainspring.wiring.stopping import Stopping
from mainspring.wiring.store import migrate, open_store
from mainspring.wiring.worker import worker_agent
from mainspring.worker.agent import Agent
from mainspring.worker.collection import collect_rarely

Tell = Callable[[str], None]


async def run_worker(settings: Settings, registry: Registry, tell: Tell) -> bool:
    """Run a worker until a signal stops it; True if it stopped in its own time."""
    with Stopping() as stopping:
        store = await open_store(settings)
        try:
            await _warn(settings, tell)
            export(settings)
            await deploy_schedules(store, registry)
            agent = worker_agent(store, settings, registry)
            async with health_served(settings, store, "worker", lambda: agent.state, tell):
                tell(_worker_line(settings, registry))
                stopping.has_started()
                return await _run_agent(agent, stopping, tell)
        finally:
            await store.close()
    return True


async def run_scheduler(settings: Settings, registry: Registry | None, tell: Tell) -> bool:
    """Run the scheduler's duties until a signal stops them; with an app, deploy its schedules."""
    with Stopping() as stopping:
        store = await open_store(settings)
        try:
            await _warn(settings, tell)
            await deploy_schedules(store, registry)
            meeting = _meeting(store, settings)
            state = partial(_scheduler_state, meeting.ownership, stopping)
            async with health_served(settings, store, "scheduler", state, tell):
                ready = partial(tell, "scheduler is ready")
                duties = asyncio.create_task(_duties(store, settings, registry, meeting, ready))
                stopping.has_started()
                await _until_drain(stopping, duties)
        finally:
            await store.close()
    return True


async def run_api(settings: Settings, tell: Tell) -> bool:
    """Serve the API until a signal stops it."""
    raise_open_files()
    with Stopping() as stopping:
        store = await open_store(settings)
        try:
            await _warn(settings, tell)
            async with api_running(store, settings, tell):
                collect_rarely()
                tell("ready")
                stopping.has_started()
                await stopping.drain.wait()
        finally:
            await store.close()
    return True


async def run_up(settings: Settings, registry: Registry | None, tell: Tell) -> bool:
    """Run everything of one machine until a signal stops it; True if it stopped in its own time.

    Without a configured database a PostgreSQL server runs on the data directory.
    """
    raise_open_files()
    with Stopping() as stopping:
        async with database(settings, tell) as located:
            export(located)
            applied = await migrate(located)
            if applied:
                tell(f"database is migrated: {len(applied)} steps")
            if not settings.database_url:
                # Whoever was a scheduler on this server is gone with it, or joins again.
                await forget_schedulers(located)
            store = await open_store(located)
            try:
                await _warn(located, tell)
                async with api_running(store, located, tell):
                    collect_rarely()
                    return await _serve(store, located, registry, stopping, tell)
            finally:
                await store.close()
    return True


async def _warn(settings: Settings, tell: Tell) -> None:
    """A server that can forget what it acknowledged works all the same, so it has to be said."""
    for risk in await risks(settings):
        tell(f"warning: {risk}")


async def _serve(
    store: Store, settings: Settings, registry: Registry | None, stopping: Stopping, tell: Tell
) -> bool:
    await deploy_schedules(store, registry)
    meeting = _meeting(store, settings)
    duties = asyncio.create_task(_duties(store, settings, registry, meeting))
    stopping.has_started()
    try:
        if registry is None and settings.http_tasks:
            tell("no --app was given, so tasks of other types than http are stored and wait")
            registry = Registry()
        if registry is None:
            tell("no --app was given, so no worker runs; tasks are stored and wait")
            tell("ready")
            await _until_drain(stopping, duties)
            return True
        agent = worker_agent(store, settings, registry)
        tell(_worker_line(settings, registry))
        tell("ready")
        return await _run_agent(agent, stopping, tell, duties)
    finally:
        duties.cancel()
        with suppress(asyncio.CancelledError):
            await duties


async def _run_agent(
    agent: Agent, stopping: Stopping, tell: Tell, beside: "asyncio.Task[None] | None" = None
) -> bool:
    """Run an agent until it has drained; its drain is cut short by a second signal."""
    collect_rarely()
    running = asyncio.create_task(agent.run(), name="mainspring-worker")
    drain = asyncio.create_task(stopping.drain.wait())
    now = asyncio.create_task(stopping.now.wait())
    works = [running] if beside is None else [running, beside]
    draining: asyncio.Task[None] | None = None
    try:
        await asyncio.wait({drain, *works}, return_when=asyncio.FIRST_COMPLETED)
        if not drain.done():
            # Something ended that should not have; whatever it raised is raised here.
            for work in works:
                if work.done():
                    work.result()
            return False
        tell("stopping when running tasks have ended; a second signal leaves them at once")
        draining = asyncio.create_task(agent.drain())
        await asyncio.wait({draining, now}, return_when=asyncio.FIRST_COMPLETED)
        if now.done():
            return False
        # Whatever kept it from ending as it should is raised here.
        await running
        return True
    finally:
        for part in (running, drain, now, draining):
            if part is not None:
                part.cancel()
        await asyncio.wait({running})


class _Meeting(NamedTuple):
    """Where this scheduler meets the others, and what it owns there."""

    coordination: Coordination
    ownership: Ownership


def _meeting(store: Store, settings: Settings) -> _Meeting:
    coordination = open_coordination(settings)
    return _Meeting(coordination, scheduler_ownership(store, coordination, settings))


def _scheduler_state(ownership: Ownership, stopping: Stopping) -> str:
    """Return `ok` while it can plan, else why it cannot."""
    if stopping.drain.is_set():
        return "draining"
    return OK if ownership.is_sure else "apart"


async def _duties(
    store: Store,
    settings: Settings,
    registry: Registry | None,
    meeting: _Meeting,
    ready: Callable[[], None] | None = None,
) -> None:
    """Do the scheduler's duties; when one fails, its error is raised as it is.

    `ready` is told when the scheduler has met the others, if there are any.
    """
    coordination, ownership = meeting
    telling = asyncio.create_task(_after(ownership.joined(), ready))
    try:
        await scheduler_service(store, settings, ownership, alert_of(registry)).run()
    except BaseExceptionGroup as group:
        error: BaseException = group
        while isinstance(error, BaseExceptionGroup):
            error = error.exceptions[0]
        raise error from group
    finally:
        telling.cancel()
        await coordination.close()


async def _after(signal: Coroutine[Any, Any, None], tell: Callable[[], None] | None) -> None:
    await signal
    if tell is not None:
        tell()


async def _until_drain(stopping: Stopping, duties: "asyncio.Task[None]") -> None:
    drain = asyncio.create_task(stopping.drain.wait())
    await asyncio.wait({drain, duties}, return_when=asyncio.FIRST_COMPLETED)
    if duties.done():
        drain.cancel()
        duties.result()
    duties.cancel()
    await asyncio.wait({duties})


def _worker_line(settings: Settings, registry: Registry) -> str:
    queues = ", ".join(settings.queues) or "every queue"
    return f"worker runs {', '.join(registry.names()) or 'no task type'} of {queues}"
