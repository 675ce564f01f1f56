"""GraphQL, where it is asked for: its library takes a quarter of a second to load."""

import importlib
from typing import Final

from mainspring.api.doorkeeper import Doorkeeper
from mainspring.api.graphql.request import GraphqlRoutes
from mainspring.core.gateway import Gateway
from mainspring.core.schedule_gateway import ScheduleGateway

_OFF: Final = "GraphQL is off; turn it on with the setting graphql (MAINSPRING_GRAPHQL=true)"
_MISSING: Final = "GraphQL is not installed here; install it: pip install 'mainspring[graphql]'"
_LIBRARIES: Final = frozenset({"graphql", "strawberry"})


def graphql_routes(
    gateway: Gateway, schedules: ScheduleGateway, doorkeeper: Doorkeeper, *, is_on: bool
) -> GraphqlRoutes:
    """Return the route of GraphQL; where there is none it says why."""
    if not is_on:
        return GraphqlRoutes(None, _OFF)
    try:
        execution = importlib.import_module("mainspring.api.graphql.execution")
    except ModuleNotFoundError as error:
        if error.name not in _LIBRARIES:
            raise
        return GraphqlRoutes(None, _MISSING)
    return GraphqlRoutes(execution.Executor(gateway, schedules, doorkeeper))
