"""For programs that receive requests from Mainspring."""

from collections.abc import Sequence

from mainspring.adapters.system import SystemClock
from mainspring.domain.signatures import WINDOW_SECONDS, is_signed


def verify_signature(
    body: bytes | str,
    header: str | None,
    secret: str | Sequence[str],
    *,
    tolerance: float = WINDOW_SECONDS,
    now: float | None = None,
) -> bool:
    """Say whether a request was signed with a secret by its sender, and not long ago.

    `body` is the body as it arrived, before anything reads it; `header` the value of
    `Mainspring-Signature` (None: there was none); `secret` the secret, or several while one takes
    the place of another. A signature that is more than `tolerance` seconds old (default: 5
    minutes) is not accepted, so that a request that was recorded cannot be sent again later. `now`
    is in seconds since 1970 (default: the time). The comparison takes the same time whatever is
    wrong. Accept the request only if the answer is True.
    """
    data = body.encode() if isinstance(body, str) else body
    secrets = [secret] if isinstance(secret, str) else secret
    moment = SystemClock().now().timestamp() if now is None else now
    return header is not None and is_signed(
        data, header, secrets, now=moment, window_seconds=tolerance
    )
