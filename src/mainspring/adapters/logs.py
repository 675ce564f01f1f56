"""Log lines: one a record, for people or for machines, that nothing in a record can break.

Control characters are escaped, so that text from outside makes neither lines nor colours of its
own. Payloads are not logged anywhere; values of keys that sound like secrets are left out, and so
are passwords in URLs.
"""

import logging
import re
import sys
from collections.abc import Callable, MutableMapping
from contextlib import suppress
from typing import Any, Final, TextIO

import structlog

from mainspring.domain.values import clip_text, hide_secrets

TEXT_BYTES_MAX: Final = 2000
_SECRET_NAME: Final = re.compile(
    r"passw|secret|token$|api_?key|authorization|cookie|credential", re.IGNORECASE
)
_NOT_SECRET: Final = frozenset({"fencing_token"})
_HIDDEN: Final = "***"

Event = MutableMapping[str, Any]


def configure_logs(level: str, style: str, stream: TextIO | None = None) -> None:
    """Send every record of this process to `stream` (standard error), as `text` or `json`."""
    before: list[Any] = [
        structlog.contextvars.merge_contextvars,
        structlog.stdlib.add_log_level,
        structlog.stdlib.add_logger_name,
        structlog.processors.TimeStamper(fmt="iso", utc=True),
    ]
    renderer = structlog.processors.JSONRenderer() if style == "json" else _as_text
    structlog.configure(
        processors=[*before, structlog.stdlib.ProcessorFormatter.wrap_for_formatter],
        logger_factory=structlog.stdlib.LoggerFactory(),
        wrapper_class=structlog.stdlib.BoundLogger,
        cache_logger_on_first_use=True,
    )
    handler = logging.StreamHandler(stream or sys.stderr)
    handler.setFormatter(
        structlog.stdlib.ProcessorFormatter(
            foreign_pre_chain=[*before, structlog.stdlib.ExtraAdder()],
            processors=[
                structlog.stdlib.ProcessorFormatter.remove_processors_meta,
                structlog.processors.format_exc_info,
                _redacted,
                renderer,
            ],
        )
    )
    root = logging.getLogger()
    root.handlers = [handler]
    root.setLevel(level.upper())
    # What libraries say at this level is about themselves.
    for library in ("asyncio", "uvicorn"):
        logging.getLogger(library).setLevel("WARNING")


def _redacted(logger: Any, method: str, event: Event) -> Event:
    """Take out what must not be read and bound what is left."""
    del logger, method
    for name, value in event.items():
        if _SECRET_NAME.search(name) and name not in _NOT_SECRET:
            event[name] = _HIDDEN
        elif not isinstance(value, int | float | bool | None):
            text = value if isinstance(value, str) else _shown(value)
            event[name] = clip_text(hide_secrets(text), TEXT_BYTES_MAX)
    return event


def _shown(value: object) -> str:
    try:
        return str(value)
    except Exception:  # noqa: BLE001 - a log line must not fail on what it shows
        return f"<{type(value).__name__}>"


def _as_text(logger: Any, method: str, event: Event) -> str:
    """Write `time level event name=value ...`."""
    del logger, method
    head = f"{event.pop('timestamp', '')} {event.pop('level', ''):<7} {event.pop('event', '')}"
    event.pop("logger", None)
    exception = event.pop("exception", None)
    fields = "".join(f" {name}={value}" for name, value in event.items())
    line = _one_line(head + fields)
    return line if exception is None else line + "\n" + _indented(exception)


def _one_line(text: str) -> str:
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)


def _indented(text: str) -> str:
    return "\n".join("    " + _one_line(line) for line in text.splitlines())


def teller(style: str, plain: Callable[[str], None]) -> Callable[[str], None]:
    """Return how a service says what it is doing: as a plain line, or where logs are JSON as one
    of those, so that whoever collects them meets nothing else. Where nobody can be told any more,
    because the pipe is closed or the disk full, what is at work goes on all the same.
    """
    say: Callable[[str], Any] = (
        structlog.get_logger("mainspring").info if style == "json" else plain
    )

    def tell(text: str) -> None:
        with suppress(OSError):
            say(text)

    return tell
