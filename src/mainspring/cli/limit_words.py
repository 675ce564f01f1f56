"""Limits in words."""

from mainspring.domain.limits import Limit, rate_text


def limit_words(limit: Limit | None, prefix: str = "") -> str:
    """Return a limit as a person reads it in a line; nothing for none."""
    if limit is None or limit.is_none:
        return ""
    words = [] if limit.concurrency is None else [f"{limit.concurrency} at once"]
    if limit.rate is not None:
        burst = "" if limit.burst is None else f" (burst {limit.burst})"
        words.append(f"{rate_text(limit.rate)}{burst}")
    return prefix + ", ".join(words)


def limit_cells(limit: Limit) -> tuple[object, ...]:
    """Return the columns of a limit: concurrency, rate and burst."""
    rate = "-" if limit.rate is None else rate_text(limit.rate)
    burst = "-" if limit.rate is None else limit.bucket
    return ("-" if limit.concurrency is None else limit.concurrency, rate, burst)
