"""Redis, as the settings name it."""

from typing import Final

from mainspring.adapters.redis.link import RedisLink, RedisOptions
from mainspring.adapters.redis.ready_queue import RedisReadyQueue
from mainspring.adapters.system import SystemClock
from mainspring.config import Settings, without_password
from mainspring.domain.errors import MainspringError

_FIRST_GOOD: Final = 7
_KEEPS: Final = "noeviction"


def redis_ready_queue(settings: Settings) -> RedisReadyQueue:
    """Return the ready queue in the configured Redis."""
    return RedisReadyQueue(_link(settings), settings.redis_prefix, slices=settings.redis_slices)


async def redis_findings(settings: Settings) -> list[tuple[bool, str]]:
    """Say of Redis whether it answers, is of a version that works and keeps what it is told, and
    of the ready queue in it what it holds.
    """
    link = _link(settings)
    queue = RedisReadyQueue(link, settings.redis_prefix, slices=settings.redis_slices)
    try:
        server = await link.server()
        figures = await queue.figures()
    except MainspringError as error:
        return [(False, f"{error.message}; workers ask the database instead")]
    finally:
        await link.close()
    said = f"{server.name} {server.version} at {without_password(settings.redis_url)}"
    if int(server.version.partition(".")[0]) < _FIRST_GOOD:
        return [(False, f"{said} is too old; update it to {_FIRST_GOOD} or later")]
    if server.policy != _KEEPS:
        # Nothing is lost, but it is as if it were away now and then.
        return [(False, f"{said} may drop keys; set its maxmemory-policy to {_KEEPS}")]
    fed = f"{figures.fed} of {figures.slices} slices fed, {figures.entries} tasks due soon"
    if figures.fed < figures.slices:
        fed += "; start a scheduler with the same ready_queue, until then workers ask the database"
    return [(figures.fed == figures.slices, f"{said}: {fed}")]


def _link(settings: Settings) -> RedisLink:
    ca_file = settings.redis_ca_file or None
    return RedisLink(RedisOptions(url=settings.redis_url, ca_file=ca_file), SystemClock())
