"""The database of `mainspring up`: the configured one, or a server of its own, kept alive."""

import asyncio
import dataclasses
import socket
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from typing import Final

from mainspring.adapters.postgres.cluster import password_file
from mainspring.adapters.postgres.embedded import EmbeddedPostgres
from mainspring.adapters.system import SystemClock
from mainspring.config import Settings, without_password
from mainspring.domain.errors import AddressInUse, EmbeddedServerError
from mainspring.ports.clock import Clock
from mainspring.wiring import state_file

Tell = Callable[[str], None]

LOOK_SECONDS: Final = 0.5
PAUSE_SECONDS_MAX: Final = 15.0


@asynccontextmanager
async def database(settings: Settings, tell: Tell) -> AsyncIterator[Settings]:
    """Yield the settings with a database in them: the configured one, or one of our own."""
    if settings.database_url:
        yield settings
        return
    data_dir = settings.data_dir.absolute()
    if settings.embedded_port:
        _check_port(settings.embedded_port)
    server = EmbeddedPostgres(data_dir, port=settings.embedded_port or None)
    await server.start()
    keeper = asyncio.create_task(_keep(server, SystemClock(), tell), name="mainspring-postgres")
    try:
        state_file.write(data_dir, server.dsn)
        tell(f"PostgreSQL {server.version} runs on {data_dir}")
        tell(f"database for other programs: {_shown(server)}")
        yield dataclasses.replace(settings, database_url=server.dsn, data_dir=data_dir)
    finally:
        keeper.cancel()
        await asyncio.wait({keeper})
        state_file.remove(data_dir)
        await server.stop()


def _shown(server: EmbeddedPostgres) -> str:
    """Say where others find it. What is said ends in logs, so a password is not among it."""
    shown = without_password(server.dsn)
    if shown == server.dsn:
        return f"MAINSPRING_DATABASE_URL='{shown}'"
    return f"{shown}, with the password in {password_file(server.data_dir)}"


async def _keep(server: EmbeddedPostgres, clock: Clock, tell: Tell) -> None:
    """Start the server again, at the same URL, whenever it has ended, for ever.

    It ends when it is killed, or when its disk is full while it recovers from that.
    """
    pause = LOOK_SECONDS
    while True:
        await clock.sleep(pause)
        if server.pid is not None:
            pause = LOOK_SECONDS
            with suppress(OSError):
                server.trim_log()
            continue
        tell("PostgreSQL has ended; starting it again")
        try:
            await server.stop()
            await server.start()
        except (EmbeddedServerError, OSError) as error:
            tell(f"PostgreSQL could not be started, and will be tried again: {error}")
            pause = min(2 * pause, PAUSE_SECONDS_MAX)
        else:
            tell("PostgreSQL runs again")


def _check_port(port: int) -> None:
    """Refuse with a sentence what the server would refuse in its log."""
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except OSError as error:
            raise AddressInUse(
                f"port {port} of 127.0.0.1 is not free ({error.strerror}); choose another one "
                "with --embedded-port or MAINSPRING_EMBEDDED_PORT",
                field="embedded_port",
            ) from None
