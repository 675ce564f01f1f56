"""What a check-up says of each part."""

import msgspec


class Finding(msgspec.Struct, frozen=True):
    """One thing that was looked at."""

    check: str
    ok: bool
    detail: str
