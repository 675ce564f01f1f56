"""Long-running parts of a process, all started and stopped the same way."""

from typing import Protocol


class Service(Protocol):
    """One background duty. `run` ends only when it is cancelled or has been asked to stop."""

    name: str

    async def run(self) -> None:
        """Do the duty until stopped. An outage of the store is survived, not raised."""
        ...

    async def run_once(self) -> int:
        """Do one round now and return how much there was to do; tests move the clock between."""
        ...
