"""The way to Redis where several servers stand behind one name: a cluster, or what sentinels watch.

The driver has clients for both. They repeat what failed and keep their own ideas of when a server
is away, so only its connections to single servers are used here, each with its own bounds.
"""

import asyncio
from bisect import bisect_left
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from itertools import count
from typing import Any, Final, NamedTuple, TypeVar

from redis.crc import key_slot
from redis.exceptions import AskError, MovedError, ReadOnlyError

from mainspring.adapters.redis.link import Absence, RedisLink, Script, ServerFacts
from mainspring.domain.errors import MainspringError
from mainspring.ports.clock import Clock
from mainspring.ports.ready_queue import ReadyQueueUnavailable

REDIRECTS: Final = (MovedError, AskError, ReadOnlyError)
"""Errors of a server that is not, or not any more, the one that keeps a key."""

_SLOT_MAX: Final = 16383
_ATTEMPTS: Final = 4
_LOOK_SECONDS: Final = 1.0
_AT_ONCE: Final = 3
"""So many are asked together where everything is: one of them may stand still."""

T = TypeVar("T")

Address = tuple[str, int]


class Share(NamedTuple):
    """Slots that follow each other, and who has them."""

    first: int
    last: int
    address: Address


Look = Callable[[RedisLink], Awaitable[list[Share]]]
"""Asks one server where everything is; nothing: it does not know."""


async def cluster_shares(link: RedisLink) -> list[Share]:
    """Return which node has which slots, as another node of the cluster sees it.

    One that is cut off from most of the others knows that, and not who took over from whom.
    """
    info, rows = await link.tell([("CLUSTER", "INFO"), ("CLUSTER", "SLOTS")])
    if b"cluster_state:ok" not in info:
        raise ReadyQueueUnavailable("the cluster is down, or this node is cut off from it")
    return [
        # A node that does not know its own address leaves it out.
        Share(int(first), int(last), ((node[0] or b"").decode() or link.host, int(node[1])))
        for first, last, node, *_ in rows
        if node[0] != b"?"
    ]


def watched_share(service: str) -> Look:
    """Return what asks a sentinel which server is the one that is written to."""

    async def look(link: RedisLink) -> list[Share]:
        (found,) = await link.tell([("SENTINEL", "GET-MASTER-ADDR-BY-NAME", service)])
        return [Share(0, _SLOT_MAX, (found[0].decode(), int(found[1])))] if found else []

    return look


class RoutedLink:
    """`link.Link` that finds the server of each key.

    `guides` are asked first where everything is, with `look`; with `asks_all`, so are the servers
    that were found. A call that another server should have had is made there; one that failed is
    not repeated. One server that is away is no reason not to ask the others.
    """

    def __init__(
        self,
        guides: Sequence[RedisLink],
        look: Look,
        link_to: Callable[[str, int], RedisLink],
        clock: Clock,
        *,
        asks_all: bool,
    ) -> None:
        self._guides = guides
        self._look = look
        self._link_to = link_to
        self._asks_all = asks_all
        self._links: dict[Address, RedisLink] = {}
        self._shares: list[Share] = []
        self._moved: dict[int, Address] = {}
        self._is_stale = True
        self._looking = asyncio.Lock()
        self._absence = Absence(clock)
        self._turns = count()
        self._reason = "there was no answer in time"

    async def run(self, script: Script, key: str, *arguments: Any) -> Any:
        """Run a script where its key is."""

        async def ask_for_it(link: RedisLink) -> Any:
            # Both on one connection, which the permission is for.
            whole = ("EVAL", script.source, 1, key, *arguments)
            return (await link.tell([("ASKING",), whole]))[1]

        return await self._there(
            key,
            lambda link: link.run(script, key, *arguments),
            ask_for_it if script.is_alone else None,
        )

    async def ask(self, key: str, commands: Sequence[tuple[Any, ...]]) -> list[Any]:
        """Send commands to where a key is and return their answers."""
        return await self._there(key, lambda link: link.tell(commands))

    async def servers(self) -> list[ServerFacts]:
        """Return what each server that has slots says of itself."""
        await self._find()
        if not self._shares:
            raise self._lost()
        addresses = sorted({share.address for share in self._shares})
        return [facts for each in addresses for facts in await self._link(each).servers()]

    async def close(self) -> None:
        """Close the connections. Safe to call twice."""
        for link in (*self._guides, *self._links.values()):
            await link.close()

    async def _there(
        self,
        key: str,
        call: Callable[[RedisLink], Awaitable[T]],
        asking: Callable[[RedisLink], Awaitable[T]] | None = None,
    ) -> T:
        slot = key_slot(key.encode())
        await self._find()
        for _ in range(_ATTEMPTS):
            link = self._server_of(slot)
            try:
                return await call(link)
            except MovedError as moved:
                # It says who has the slot; who has the others is asked before the next call.
                self._moved[slot] = (moved.host or link.host, moved.port)
                self._is_stale = True
            except AskError as moving:
                if asking is None:
                    # Some keys are here and some are there: nothing works on all of them.
                    raise ReadyQueueUnavailable(
                        "Redis moves this part to another node of the cluster"
                    ) from moving
                return await asking(self._link((moving.host or link.host, moving.port)))
            except ReadOnlyError:
                self._is_stale = True
                await self._find()
            except ReadyQueueUnavailable:
                self._is_stale = True
                raise
        raise ReadyQueueUnavailable("the servers of Redis send each other round; none keeps a key")

    def _server_of(self, slot: int) -> RedisLink:
        address = self._moved.get(slot) or self._address_of(slot)
        if address is None:
            self._is_stale = True
            raise self._lost()
        return self._link(address)

    def _address_of(self, slot: int) -> Address | None:
        at = bisect_left(self._shares, slot, key=lambda share: share.last)
        if at < len(self._shares) and self._shares[at].first <= slot:
            return self._shares[at].address
        return None

    def _link(self, address: Address) -> RedisLink:
        link = self._links.get(address)
        if link is None:
            link = self._links[address] = self._link_to(*address)
        return link

    async def _find(self) -> None:
        """Ask where everything is, unless that is known or was asked in vain a moment ago."""
        async with self._looking:
            if not self._is_stale or self._absence.lasts:
                return
            shares = await self._look_around()
            if not shares or (shares == self._shares and not self._moved):
                # Nobody has taken over yet.
                self._absence.begin()
            else:
                self._absence.end()
            if shares:
                await self._learn(shares)

    async def _learn(self, shares: list[Share]) -> None:
        self._shares = shares
        self._moved.clear()
        self._is_stale = False
        known = {share.address for share in shares}
        for address in [each for each in self._links if each not in known]:
            await self._links.pop(address).close()

    async def _look_around(self) -> list[Share]:
        servers = [*self._links.values()] if self._asks_all else []
        asked = [link for link in (*self._guides, *servers) if not link.is_away]
        turn = next(self._turns) % max(1, len(asked))
        asked = asked[turn:] + asked[:turn]
        with suppress(TimeoutError):
            async with asyncio.timeout(_LOOK_SECONDS):
                for first in range(0, len(asked), _AT_ONCE):
                    if shares := await self._first_answer(asked[first : first + _AT_ONCE]):
                        return sorted(shares)
        return []

    async def _first_answer(self, asked: Sequence[RedisLink]) -> list[Share]:
        tasks = [asyncio.ensure_future(self._look(link)) for link in asked]
        try:
            for answer in asyncio.as_completed(tasks):
                try:
                    if shares := await answer:
                        return shares
                    self._reason = "it is not known there"
                except MainspringError as error:
                    self._reason = error.message
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
        return []

    def _lost(self) -> ReadyQueueUnavailable:
        return ReadyQueueUnavailable(
            f"nobody says which server of Redis keeps this part: {self._reason}"
        )
