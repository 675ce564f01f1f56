"""How fast attempts end, to know how much work to hold ready."""

from typing import Final

from mainspring.core.registry import Mode

_SMOOTHING: Final = 0.5


class Pace:
    """How many attempts of each kind end in a second, smoothed."""

    def __init__(self) -> None:
        self.ended: dict[Mode, int] = dict.fromkeys(Mode, 0)
        self._rates: dict[Mode, float] = dict.fromkeys(Mode, 0.0)

    def measure(self, elapsed_seconds: float) -> None:
        """Take in what ended since the last call."""
        for mode, count in self.ended.items():
            rate = self._rates[mode]
            self._rates[mode] = rate + _SMOOTHING * (count / elapsed_seconds - rate)
            self.ended[mode] = 0

    def work(self, mode: Mode, seconds: float) -> int:
        """Return how many attempts end in so much time."""
        return int(self._rates[mode] * seconds)
