"""One HTTP request and its answer, as the tasks and the client that is loaded for them see it."""

from typing import NamedTuple, Protocol

from mainspring.domain.targets import Target


class CallFailed(ConnectionError):
    """No answer came: the server cannot be reached, or broke off."""


class Call(NamedTuple):
    """One request to one target."""

    target: Target
    method: str
    headers: tuple[tuple[str, str], ...]
    body: bytes
    body_max: int
    """Bytes of the answer's body that are read."""


class Answer(NamedTuple):
    """What came back. The body is cut at the bound; `is_cut` says whether there was more."""

    status: int
    headers: tuple[tuple[str, str], ...]
    body: bytes
    is_cut: bool

    def header(self, name: str) -> str | None:
        """Return the first header of a name, which is in lower case."""
        return next((value for given, value in self.headers if given == name), None)


class Client(Protocol):
    """What makes requests."""

    async def call(self, call: Call) -> Answer:
        """Make a request and return the answer, without bounds of time of its own.

        Raises `TargetRefused`, or `CallFailed` when there is no answer.
        """
        ...

    async def close(self) -> None:
        """Close all connections."""
        ...
