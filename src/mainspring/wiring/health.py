"""How a worker or a scheduler is, for those who watch the process."""

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

from mainspring.adapters.health_port import Answer, health_port
from mainspring.config import Settings
from mainspring.core.readiness import UNAVAILABLE, role_readiness
from mainspring.ports.store import Store

Tell = Callable[[str], None]


@asynccontextmanager
async def health_served(
    settings: Settings, store: Store, role: str, state: Callable[[], str], tell: Tell
) -> AsyncIterator[None]:
    """Answer probes for the time of the block, if a port is set for it. `state` says how the role
    itself is: `ok`, or a word for why it takes no work.
    """
    if settings.health_port < 0:
        yield
        return

    async def ready() -> Answer:
        found = await role_readiness(store, role, state())
        body = {"status": found.status, "parts": found.parts}
        return Answer(found.status != UNAVAILABLE, body)

    async with health_port(settings.host, settings.health_port, ready) as port:
        shown = f"[{settings.host}]" if ":" in settings.host else settings.host
        tell(f"health: http://{shown}:{port}/health/ready")
        yield
