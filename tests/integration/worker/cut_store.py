"""A store that a worker cannot reach when the test says so."""

from collections.abc import Sequence

from mainspring.adapters.memory.store import MemoryStore
from mainspring.adapters.system import SystemClock
from mainspring.domain.errors import OutcomeUnknown, StoreUnavailable
from mainspring.domain.task import Completed, LeaseRef, Renewal, Settlement
from mainspring.ports.store import Claim, ClaimRequest


class CutStore(MemoryStore):
    """The store in memory behind a connection that breaks on request; the test's own calls of
    other methods always get through.
    """

    def __init__(self) -> None:
        super().__init__(SystemClock())
        self.refused = 0
        self.refused_progress = 0
        self.claims = 0
        self._is_cut = False
        self._lost_answers = 0
        self.lost_claims = 0
        """How many answers of claims that lease something are still to be lost."""

        self._refused_result: str | None = None

    def cut(self) -> None:
        """Let every call of a worker fail from now on."""
        self._is_cut = True

    def heal(self) -> None:
        """Let calls through again."""
        self._is_cut = False

    def lose_answers(self, count: int) -> None:
        """Lose the answers of the next settlements after they have been stored."""
        self._lost_answers = count

    def lose_claims(self, count: int) -> None:
        """Lose the answers of the next claims that have leased something."""
        self.lost_claims = count

    def refuse_result(self, result: str) -> None:
        """Fail, as a database does, when a batch contains this result."""
        self._refused_result = result

    async def claim(self, request: ClaimRequest) -> Claim:
        self.claims += 1
        self._pass()
        claim = await super().claim(request)
        if self.lost_claims and claim.leases:
            self.lost_claims -= 1
            raise OutcomeUnknown("the connection broke")
        return claim

    async def heartbeat(self, leases: Sequence[LeaseRef], lease_seconds: float) -> list[Renewal]:
        self._pass()
        return await super().heartbeat(leases, lease_seconds)

    async def watch(self, leases: Sequence[LeaseRef]) -> list[Renewal]:
        self._pass()
        return await super().watch(leases)

    async def progress(self, lease: LeaseRef, progress: str) -> bool:
        self.refused_progress += self._is_cut
        self._pass()
        return await super().progress(lease, progress)

    async def settle(self, settlements: Sequence[Settlement]) -> list[bool]:
        self._pass()
        results = [each.ending.result for each in settlements if isinstance(each.ending, Completed)]
        if self._refused_result is not None and self._refused_result in results:
            raise ValueError("this cannot be stored")
        answers = await super().settle(settlements)
        if self._lost_answers:
            self._lost_answers -= 1
            raise OutcomeUnknown("the connection broke")
        return answers

    def _pass(self) -> None:
        if self._is_cut:
            self.refused += 1
            raise StoreUnavailable("the connection is cut")
