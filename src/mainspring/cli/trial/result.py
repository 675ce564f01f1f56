"""One line of the demo's table."""

import msgspec


class Result(msgspec.Struct, frozen=True):
    """What was looked at, what should happen and what did."""

    check: str
    expected: str
    observed: str
    ok: bool
