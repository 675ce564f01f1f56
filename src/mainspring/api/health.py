"""Health, metrics and the document of the API."""

from collections.abc import Iterator, Sequence
from typing import Any

from mainspring.api.http import Call, Response
from mainspring.api.metrics import CONTENT_TYPE, Metrics
from mainspring.api.routes import Route
from mainspring.api.schemas import HealthOut
from mainspring.core.readiness import UNAVAILABLE, store_readiness
from mainspring.ports.access import Scope
from mainspring.ports.store import Store


class HealthRoutes:
    """The handlers for those who watch the process."""

    def __init__(self, reader: Store, metrics: Metrics) -> None:
        self._reader = reader
        self._metrics = metrics
        self._document: bytes = b"{}"

    def describe(self, document: bytes) -> None:
        """Give out this OpenAPI document."""
        self._document = document

    def routes(self) -> Iterator[Route]:
        """Yield the routes for those who watch."""
        yield Route(
            method="GET",
            path="/health/live",
            handler=self.live,
            scope=None,
            summary="Whether the process works",
            tag="health",
            answers={200: HealthOut},
        )
        yield Route(
            method="GET",
            path="/health/ready",
            handler=self.ready,
            scope=None,
            summary="Whether every part that it needs works, and which one does not",
            tag="health",
            answers={200: HealthOut, 503: HealthOut},
        )
        yield Route(
            method="GET",
            path="/metrics",
            handler=self.metrics,
            scope=Scope.READ,
            summary="Figures for Prometheus: of the installation, or of one's own queues",
            tag="health",
            answers={200: str},
            answer_type=CONTENT_TYPE,
        )
        yield Route(
            method="GET",
            path="/v1/openapi.json",
            handler=self.openapi,
            scope=Scope.READ,
            summary="This document",
            tag="health",
            answers={200: dict[str, Any]},
        )

    async def live(self, call: Call) -> Response:
        """Say that the process works."""
        del call
        return Response(value=HealthOut(status="ok", parts={}))

    async def ready(self, call: Call) -> Response:
        """Say whether the store answers."""
        del call
        found = await store_readiness(self._reader)
        out = HealthOut(status=found.status, parts=found.parts)
        if found.status == UNAVAILABLE:
            return Response(status=503, value=out, headers=[(b"retry-after", b"1")])
        return Response(value=out)

    async def metrics(self, call: Call) -> Response:
        """Give out the figures as they were last seen."""
        return Response(data=self._metrics.text(call.who), content_type=CONTENT_TYPE)

    async def openapi(self, call: Call) -> Response:
        """Give out the document."""
        del call
        return Response(data=self._document)


def tags(routes: Sequence[Route]) -> list[str]:
    """Return the groups of routes, in their order."""
    return list(dict.fromkeys(route.tag for route in routes))
