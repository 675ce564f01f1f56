"""Signatures of requests, by which a receiver knows who sent them and that they are fresh.

The header is ``t=TIMESTAMP,v1=HEX``: seconds since 1970, and the HMAC-SHA256 of
``TIMESTAMP.BODY`` under the secret that both sides know.
"""

import hmac
import re
from collections.abc import Sequence
from hashlib import sha256
from typing import Final

SIGNATURE_HEADER: Final = "Mainspring-Signature"
WINDOW_SECONDS: Final = 300.0
"""A signature that is older, or from a clock that is further ahead, is not accepted."""

_HEADER: Final = re.compile(r"t=(?P<time>[0-9]{1,12})(?P<marks>(,v1=[0-9a-f]{64}){1,5})", re.ASCII)


def sign(secret: str, timestamp: int, body: bytes) -> str:
    """Return the value of the header for a body that is sent at a time."""
    return f"t={timestamp},v1={_mark(secret, timestamp, body)}"


def is_signed(
    body: bytes,
    header: str,
    secrets: Sequence[str],
    *,
    now: float,
    window_seconds: float = WINDOW_SECONDS,
) -> bool:
    """Say whether a header is the signature of a body by one of the secrets, and fresh."""
    found = _HEADER.fullmatch(header.replace(" ", ""))
    if found is None:
        return False
    timestamp = int(found["time"])
    given = [part.removeprefix("v1=") for part in found["marks"].split(",")[1:]]
    # Every pair is compared, so that the time tells nothing.
    fits = [
        hmac.compare_digest(_mark(secret, timestamp, body), mark)
        for secret in secrets
        for mark in given
    ]
    return any(fits) and abs(now - timestamp) <= window_seconds


def _mark(secret: str, timestamp: int, body: bytes) -> str:
    return hmac.new(secret.encode(), str(timestamp).encode() + b"." + body, sha256).hexdigest()
