"""What is known of a setting besides its name, type and default."""

from typing import NamedTuple


class Facts(NamedTuple):
    """The meaning of a setting, and what is accepted for it."""

    doc: str
    unit: str = ""
    low: float | None = None
    high: float | None = None
    choices: tuple[str, ...] = ()
    secret: bool = False
