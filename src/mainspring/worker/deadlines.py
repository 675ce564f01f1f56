"""One heap for all deadlines of a process: a timer for each task would cost more than the task."""

from heapq import heapify, heappop, heappush
from typing import Final

_SLACK: Final = 256


class Deadlines:
    """Which numbers are due when. Times are seconds of whatever clock the caller uses."""

    def __init__(self) -> None:
        self._heap: list[tuple[float, int]] = []
        self._times: dict[int, float] = {}

    def __len__(self) -> int:
        return len(self._times)

    def set(self, number: int, at: float) -> None:
        """Expect a number at a time, instead of any earlier one for it."""
        self._times[number] = at
        heappush(self._heap, (at, number))
        if len(self._heap) > 2 * len(self._times) + _SLACK:
            self._compact()

    def forget(self, number: int) -> None:
        """Expect a number no more. Its entry is dropped later, in bulk."""
        self._times.pop(number, None)

    def earliest(self) -> float | None:
        """Return the next time at which a number is due, if any is expected."""
        heap = self._heap
        while heap and self._times.get(heap[0][1]) != heap[0][0]:
            heappop(heap)
        return heap[0][0] if heap else None

    def due(self, now: float) -> list[int]:
        """Return the numbers whose time has come, the earliest first, and forget them."""
        numbers: list[int] = []
        while (at := self.earliest()) is not None and at <= now:
            number = heappop(self._heap)[1]
            del self._times[number]
            numbers.append(number)
        return numbers

    def _compact(self) -> None:
        self._heap = [(at, number) for number, at in self._times.items()]
        heapify(self._heap)
