"""Schedules that are written in code: checked where they are written, stored at deployment."""

import logging
from collections.abc import Mapping
from typing import Any, Final

from mainspring.core.registry import Registry, ScheduleDeclaration, TaskDefinition
from mainspring.core.schedule_options import (
    check_replacing,
    merged,
    spec_changes,
    template_of,
)
from mainspring.core.schedules import Change, OnConflict, Schedules, on_conflict_of
from mainspring.domain.errors import InvalidValue
from mainspring.domain.schedule import load_spec
from mainspring.domain.values import check_name

_LOGGER: Final = logging.getLogger("mainspring.scheduler")


def declare(
    registry: Registry,
    definition: TaskDefinition,
    *,
    name: str | None,
    payload: Mapping[str, Any] | None,
    on_conflict: str,
    options: Mapping[str, Any],
) -> None:
    """Note a schedule of a task type; raises `InvalidValue` for what could not be stored."""
    spec = load_spec(merged({}, spec_changes(options)))
    check_replacing(spec.overlap, template_of(definition.name, payload, options, definition))
    declaration = ScheduleDeclaration(
        name=check_name(definition.name if name is None else name, "name"),
        task_type=definition.name,
        payload=payload,
        on_conflict=on_conflict_of(on_conflict).value,
        options=dict(options),
    )
    registry.add_schedule(declaration)


async def deploy(schedules: Schedules, registry: Registry) -> list[str]:
    """Create or update the schedules of an app, by name, and return their names.

    Any number of processes may do so at the same time. Schedules that are not in the code any
    more are left alone. One whose time has passed is left out. Raises `ScheduleExists` for one
    that is not to be replaced and is different.
    """
    deployed = []
    for declaration in registry.schedules():
        change = Change(
            task_type=declaration.task_type,
            payload=declaration.payload,
            options=declaration.options,
            definition=registry.get(declaration.task_type),
        )
        try:
            await schedules.create(declaration.name, change, OnConflict(declaration.on_conflict))
        except InvalidValue as error:
            # It was right when it was written: its time or its end has passed since.
            _LOGGER.warning("schedule %s is not deployed: %s", declaration.name, error)
            continue
        deployed.append(declaration.name)
    return deployed
