"""How a duty is repeated: at an interval with jitter, through outages, until it is cancelled."""

import logging
from collections.abc import Awaitable, Callable
from typing import Final

import msgspec

from mainspring.domain.errors import Unavailable
from mainspring.ports.clock import Chance, Clock

_LOGGER: Final = logging.getLogger("mainspring.scheduler")


class Interval(msgspec.Struct, frozen=True, kw_only=True):
    """When the rounds of a duty come; all times in seconds."""

    seconds: float
    """Between the end of a round and the beginning of the next."""

    jitter: float = 0.1
    """The largest random part added to a pause, as a fraction of it, so that the schedulers of an
    installation do not all come at the same moment."""

    first_pause_seconds: float = 0.5
    """After a round that failed because the store was not available; doubled with each further
    failure."""

    longest_pause_seconds: float = 4.0
    """The most that a pause after a failure grows to: five seconds after the end of an outage, of
    any length, everything is as before."""

    def pause(self, failures: int, chance: float) -> float:
        """Return the seconds until the next round after so many failures in a row (0: none)."""
        plain = self.seconds
        if failures:
            # The power is bounded before it is computed: an outage may last for days.
            doubled = self.first_pause_seconds * 2.0 ** min(failures - 1, 30)
            plain = min(doubled, self.longest_pause_seconds)
        return plain * (1 + self.jitter * chance)


class Loop:
    """Repeats the rounds of duties. An outage of the store is reported once, and so is its end."""

    def __init__(self, clock: Clock, chance: Chance) -> None:
        self._clock = clock
        self._chance = chance

    async def repeat(
        self, name: str, run_once: Callable[[], Awaitable[int]], interval: Interval
    ) -> None:
        """Do rounds for ever: the first at once, each later one after a pause.

        Only errors that pass by themselves (`Unavailable`) are survived. Everything else is a
        fault of the installation or of the code, which the caller has to see.
        """
        failures = 0
        while True:
            try:
                await run_once()
            except Unavailable as error:
                failures += 1
                if failures == 1:
                    _LOGGER.warning("%s waits for the task store: %s", name, error)
            else:
                if failures:
                    _LOGGER.info("%s goes on after %d failed rounds", name, failures)
                failures = 0
            await self._clock.sleep(interval.pause(failures, self._chance.random()))
