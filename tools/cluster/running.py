"""All parts of a cluster: started together, ended in their order."""

import asyncio
import dataclasses
import os
import secrets
import signal
from collections.abc import Awaitable, Callable, Iterable, Sequence
from pathlib import Path
from typing import NamedTuple

from tools.cluster.app import LOG_VARIABLE
from tools.cluster.programs import Etcd, Part, Postgres, Program, Role, Valkey

from mainspring.config import Settings, child_environment, unknown_variables
from mainspring.core.access import ID_BYTES, SECRET_BYTES, new_key
from mainspring.domain.namespaces import DEFAULT_NAMESPACE
from mainspring.ports.access import Scope
from mainspring.wiring.store import migrate, open_store

APP = "tools.cluster.app:app"
AGAIN_SECONDS = 3.0
_KEY_NAME = "cluster"

Tell = Callable[[str], None]


class Sizes(NamedTuple):
    """How many of each there are."""

    shards: int = 2
    etcd: int = 3
    apis: int = 2
    schedulers: int = 3
    workers: int = 3


class Options(NamedTuple):
    """How a cluster is made."""

    sizes: Sizes = Sizes()
    app: str = APP
    grpc: bool = True
    redis: bool = True
    lease_seconds: float = 10.0
    ttl_seconds: float = 5.0


class Cluster:
    """Servers and roles of one installation, in one directory."""

    def __init__(self, directory: Path, options: Options, tell: Tell) -> None:
        self.directory = directory
        self.options = options
        self.executions = directory / "executions.jsonl"
        self.key = ""
        self._tell = tell
        self._logs = directory / "logs"
        self._logs.mkdir(parents=True, exist_ok=True)
        sizes = options.sizes
        numbers = range(1, sizes.shards + 1)
        self.postgres = [Postgres(f"postgres-{n}", directory / f"postgres-{n}") for n in numbers]
        self.etcd = [self._etcd(n) for n in range(1, sizes.etcd + 1)]
        for member in self.etcd:
            member.join(self.etcd)
        self.redis = [self._valkey()] if options.redis else []
        self.roles: list[Role] = []
        self._counts: dict[str, int] = {}

    @property
    def servers(self) -> list[Part]:
        """What the roles need, in the order in which it is started."""
        return [*self.postgres, *self.etcd, *self.redis]

    @property
    def parts(self) -> list[Part]:
        """Everything that runs."""
        return [*self.servers, *self.roles]

    @property
    def settings(self) -> Settings:
        """The settings that all roles share. Known when the servers have started."""
        options = self.options
        return dataclasses.replace(
            Settings(),
            database_url=",".join(part.place for part in self.postgres),
            coordination="etcd" if self.etcd else "postgres",
            etcd_url=",".join(member.client for member in self.etcd),
            ready_queue="redis" if self.redis else "postgres",
            redis_url=self.redis[0].place if self.redis else "",
            app=options.app,
            processes=1,
            lease_seconds=options.lease_seconds,
            heartbeat_seconds=options.lease_seconds / 4,
            scheduler_ttl_seconds=options.ttl_seconds,
            grpc_port=0 if options.grpc else -1,
        )

    def named(self, role: str) -> list[Role]:
        """Return the processes of a role."""
        return [each for each in self.roles if each.role == role]

    async def start(self) -> None:
        """Start everything and return when all of it is ready."""
        await together(part.start for part in self.servers)
        self._tell("servers are ready")
        await migrate(self.settings)
        self.key = await self._make_key()
        sizes = self.options.sizes
        wanted = {"api": sizes.apis, "scheduler": sizes.schedulers, "worker": sizes.workers}
        roles = [self.add(role) for role, count in wanted.items() for _ in range(count)]
        await together(role.start for role in roles)
        self._write_environment()

    def add(self, role: str) -> Role:
        """Make one more process of a role, which is then to be started."""
        self._counts[role] = number = self._counts.get(role, 0) + 1
        name = f"{role}-{number}"
        environment = {
            **{
                name: value for name, value in os.environ.items() if name not in unknown_variables()
            },
            **child_environment(self.settings),
            LOG_VARIABLE: str(self.executions),
        }
        for own in ("MAINSPRING_PORT", "MAINSPRING_HEALTH_PORT"):
            del environment[own]
        added = Role(name, environment, self._logs / f"{name}.log")
        self.roles.append(added)
        return added

    async def remove(self, role: Role) -> int:
        """Let one drain, and return its exit status."""
        self.roles.remove(role)
        return await role.stop()

    async def keep(self) -> None:
        """Start again whatever ends, for ever, and say so."""
        while True:
            for part in self.parts:
                if part.pid is None:
                    self._tell(f"{part.name} has ended; it is started again in {AGAIN_SECONDS:g} s")
                    await asyncio.sleep(AGAIN_SECONDS)
                    await part.start()
                    self._tell(f"{part.name} is ready again, as process {part.pid}")
            await asyncio.sleep(0.2)

    async def stop(self) -> list[str]:
        """End everything in its order; returns what did not end well."""
        failed = []
        for role in ("worker", "scheduler", "api"):
            ended = self.named(role)
            statuses = await asyncio.gather(*(each.stop() for each in ended))
            failed += [
                f"{each.name} ended with {status}"
                for each, status in zip(ended, statuses, strict=True)
                # Who was told to end before it could listen to that has nothing to hand over.
                if status not in {0, -signal.SIGTERM}
            ]
        await asyncio.gather(*(part.stop() for part in reversed(self.servers)))
        return failed

    async def end(self) -> None:
        """Kill everything."""
        programs = [part for part in self.parts if isinstance(part, Program)]
        await asyncio.gather(*(part.kill() for part in programs))
        await asyncio.gather(*(part.stop() for part in self.postgres))

    async def _make_key(self) -> str:
        key, record = new_key(
            _KEY_NAME,
            secrets.token_bytes(ID_BYTES + SECRET_BYTES),
            namespace=DEFAULT_NAMESPACE,
            scopes=tuple(Scope),
            queues=None,
            expires_at=None,
            certificate=None,
        )
        store = await open_store(self.settings)
        try:
            await store.add_key(record)
        finally:
            await store.close()
        return key

    def _etcd(self, number: int) -> Etcd:
        name = f"etcd-{number}"
        return Etcd(name, self.directory / name, self._logs / f"{name}.log")

    def _valkey(self) -> Valkey:
        data = self.directory / "redis-1"
        data.mkdir()
        return Valkey("redis-1", data, self._logs / "redis-1.log")

    def _write_environment(self) -> None:
        """Write what other programs need to reach it, for its owner alone."""
        settings = self.settings
        lines = {
            **{
                f"MAINSPRING_{name.upper()}": str(getattr(settings, name))
                for name in ("database_url", "coordination", "etcd_url", "ready_queue", "redis_url")
            },
            "MAINSPRING_API_URL": self.named("api")[0].url,
            "MAINSPRING_API_KEY": self.key,
        }
        text = "".join(f"export {name}='{value}'\n" for name, value in lines.items())
        descriptor = os.open(self.environment_file, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        with os.fdopen(descriptor, "w") as file:
            file.write(text)

    @property
    def environment_file(self) -> Path:
        """What a shell reads to use the cluster."""
        return self.directory / "cluster.env"


async def together(steps: Iterable[Callable[[], Awaitable[None]]]) -> None:
    """Do steps side by side; the first error is raised when all have ended."""
    done: Sequence[BaseException | None] = await asyncio.gather(
        *(step() for step in steps), return_exceptions=True
    )
    for error in done:
        if error is not None:
            raise error
