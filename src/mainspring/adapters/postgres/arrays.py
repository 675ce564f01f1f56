"""Lists as the text of arrays, which the server takes apart.

Of each value in a list the driver asks whether it is a list itself, which takes longer than all
else that it does with it. So what every claim says again goes as text, written once.
"""

from collections.abc import Iterable


def array_of(numbers: Iterable[float | None]) -> str:
    """Return numbers as the text of an array; None is NULL there."""
    return f"{{{','.join(['NULL' if number is None else repr(number) for number in numbers])}}}"
