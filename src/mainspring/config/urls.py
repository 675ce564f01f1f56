"""Several databases in one setting."""

import re
from typing import Final

_BETWEEN: Final = re.compile(r"[,\s]+(?=postgres(?:ql)?://)")


def split_urls(text: str) -> tuple[str, ...]:
    """Return the URLs in a list of them. A comma within one separates its hosts."""
    listed = text.strip(" \t\r\n,")
    return tuple(_BETWEEN.split(listed)) if listed else ()
