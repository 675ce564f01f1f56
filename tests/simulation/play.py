"""Running one seed from its beginning to the verdict."""

import gc
from dataclasses import dataclass

from simulation.checkers import check_end
from simulation.virtual_loop import run_virtual
from simulation.world import World


@dataclass(frozen=True, slots=True)
class Verdict:
    """What a seed led to."""

    seed: int
    trace: str
    violations: tuple[str, ...]
    counts: dict[str, int]

    def __str__(self) -> str:
        shown = "\n  ".join(self.violations[:5])
        return f"seed {self.seed}: {len(self.violations)} violations\n  {shown}"


def play(seed: int) -> Verdict:
    """Run a seed and judge it."""
    world = World(seed)

    async def whole() -> None:
        await world.run()
        await check_end(world)

    # A seed is short: collecting garbage meanwhile costs more than it brings.
    gc.disable()
    try:
        run_virtual(whole())
    finally:
        gc.enable()
    audit = world.audit
    return Verdict(seed, audit.trace, tuple(audit.violations), dict(audit.counts))
