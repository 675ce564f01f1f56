"""Who is alive and who holds what, as keys under leases.

A member is a key under its lease, and so is each partition that it holds, so that all of them go
together. A watch says only that something changed; what there is then is read as a whole. So
nothing depends on the history that etcd keeps, and an etcd that lost its data is just an empty one.
"""

import asyncio
import math
from collections.abc import Collection
from contextlib import suppress
from typing import Final

from mainspring.adapters.etcd._generated import etcd_pb2 as pb
from mainspring.adapters.etcd.client import (
    GRANT,
    PUT,
    RANGE,
    REVOKE,
    TXN,
    EtcdClient,
    EtcdOptions,
    LeaseGone,
)
from mainspring.domain.errors import SetupError
from mainspring.ports.clock import Clock
from mainspring.ports.coordination import View

_AGAIN_SECONDS: Final = 0.2


class Keys:
    """The keys of one installation."""

    def __init__(self, prefix: str) -> None:
        self.first = f"{prefix}/".encode()
        # The first key after all that begin so.
        self.end = f"{prefix}0".encode()
        self._members = f"{prefix}/members/"
        self._partitions = f"{prefix}/partitions/"

    def member(self, name: str) -> bytes:
        """Return the key that says that a member is alive."""
        return f"{self._members}{name}".encode()

    def partition(self, number: int) -> bytes:
        """Return the key of a partition."""
        return f"{self._partitions}{number}".encode()

    def member_of(self, key: bytes) -> str | None:
        """Return the member that a key is of, if it is one of a member."""
        text = key.decode()
        return text.removeprefix(self._members) if text.startswith(self._members) else None

    def partition_of(self, key: bytes) -> int | None:
        """Return the partition that a key is of, if it is one of a partition."""
        text = key.decode()
        number = text.removeprefix(self._partitions)
        return int(number) if text.startswith(self._partitions) and number.isdecimal() else None


class Watcher:
    """Tells that something changed, also when it may only have been missed."""

    def __init__(self, client: EtcdClient, keys: Keys, clock: Clock) -> None:
        self._client = client
        self._keys = keys
        self._clock = clock
        self._changed = asyncio.Event()
        self._watching: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Watch from now on, if it is not watched already."""
        if self._watching is None:
            self._watching = asyncio.get_running_loop().create_task(self._watch())

    async def wait(self, timeout_seconds: float) -> None:
        """Return at the first change since the last call, at the latest after this time."""
        with suppress(TimeoutError):
            async with asyncio.timeout(timeout_seconds):
                await self._changed.wait()
        self._changed.clear()

    async def stop(self) -> None:
        """Watch no more."""
        watching, self._watching = self._watching, None
        if watching is not None:
            watching.cancel()
            await asyncio.gather(watching, return_exceptions=True)

    async def _watch(self) -> None:
        while True:
            # Wrong passwords and missing rights show in the calls that somebody waits for.
            with suppress(SetupError):
                async for _ in self._client.watch(self._keys.first, self._keys.end):
                    self._changed.set()
            await self._clock.sleep(_AGAIN_SECONDS)


class EtcdSession:
    """`ports.coordination.Session`: one lease."""

    def __init__(
        self, client: EtcdClient, keys: Keys, watcher: Watcher, member: str, lease: tuple[int, int]
    ) -> None:
        self._client = client
        self._keys = keys
        self._watcher = watcher
        self._member = member
        self._lease, self._ttl_seconds = lease

    @property
    def ttl_seconds(self) -> float:
        """How long the session lasts after a renewal, as etcd granted it."""
        return float(self._ttl_seconds)

    async def renew(self) -> bool:
        """Let the session last from now on; False when it is over."""
        return await self._client.keep_alive(self._lease) > 0

    async def view(self) -> View:
        """Return the members and holders, as a majority of etcd has them."""
        request = pb.RangeRequest(key=self._keys.first, range_end=self._keys.end)
        answer = await self._client.call(RANGE, request)
        members: set[str] = set()
        holders: dict[int, str] = {}
        for pair in answer.kvs:
            member = self._keys.member_of(pair.key)
            partition = self._keys.partition_of(pair.key)
            holder = pair.value.decode()
            # What an earlier session of ours still holds is not ours: it ends by itself.
            if holder == self._member and pair.lease != self._lease:
                continue
            if member is not None:
                members.add(member)
            elif partition is not None:
                holders[partition] = holder
        return View(
            frozenset(members), {one: who for one, who in holders.items() if who in members}
        )

    async def changed(self, timeout_seconds: float) -> None:
        """Return when the view may have changed."""
        await self._watcher.wait(timeout_seconds)

    async def acquire(self, partitions: Collection[int]) -> frozenset[int]:
        """Take the keys that are free."""
        try:
            answers = await asyncio.gather(*(self._acquire(one) for one in partitions))
        except LeaseGone:
            return frozenset()
        return frozenset(one for one, is_ours in zip(partitions, answers, strict=True) if is_ours)

    async def release(self, partitions: Collection[int]) -> None:
        """Give keys back."""
        await asyncio.gather(*(self._release(one) for one in partitions))

    async def leave(self) -> None:
        """End the session."""
        with suppress(LeaseGone):
            await self._client.call(REVOKE, pb.LeaseRevokeRequest(id=self._lease))

    async def _acquire(self, partition: int) -> bool:
        key = self._keys.partition(partition)
        put = pb.PutRequest(key=key, value=self._member.encode(), lease=self._lease)
        request = pb.TxnRequest(
            compare=[pb.Compare(target=pb.Compare.CREATE, key=key, create_revision=0)],
            success=[pb.RequestOp(request_put=put)],
            failure=[pb.RequestOp(request_range=pb.RangeRequest(key=key))],
        )
        answer = await self._client.call(TXN, request)
        if answer.succeeded:
            return True
        # The answer to an earlier request of ours may have been lost.
        return any(pair.lease == self._lease for pair in answer.responses[0].response_range.kvs)

    async def _release(self, partition: int) -> None:
        key = self._keys.partition(partition)
        delete = pb.DeleteRangeRequest(key=key)
        request = pb.TxnRequest(
            compare=[pb.Compare(target=pb.Compare.LEASE, key=key, lease=self._lease)],
            success=[pb.RequestOp(request_delete_range=delete)],
        )
        await self._client.call(TXN, request)


class EtcdCoordination:
    """`ports.coordination.Coordination`. Whoever gives the same prefix meets."""

    def __init__(self, options: EtcdOptions, prefix: str, clock: Clock) -> None:
        self._client = EtcdClient(options)
        self._keys = Keys(prefix)
        self._watcher = Watcher(self._client, self._keys, clock)

    async def join(self, member: str, ttl_seconds: float) -> EtcdSession:
        """Begin a session, of whole seconds and of no less than etcd allows."""
        self._watcher.start()
        grant = pb.LeaseGrantRequest(ttl=math.ceil(ttl_seconds))
        lease = await self._client.call(GRANT, grant)
        name = self._keys.member(member)
        await self._client.call(PUT, pb.PutRequest(key=name, value=member.encode(), lease=lease.id))
        granted = (lease.id, lease.ttl)
        return EtcdSession(self._client, self._keys, self._watcher, member, granted)

    async def close(self) -> None:
        """Release connections. Safe to call twice."""
        await self._watcher.stop()
        await self._client.close()
