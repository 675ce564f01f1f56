"""Namespaces: tenants that share an installation and nothing else.

Claims, pauses, turns and counts are all kept by queue, so tenants that must not touch each other
must not share one: a namespace is the first part of the stored names of its queues and keys. The
marks between the parts cannot occur in a name or key that a caller gives. The default namespace has
no first part, so an installation with one tenant sees plain names everywhere.
"""

import re
from typing import Final

from mainspring.domain.errors import InvalidValue
from mainspring.domain.placement import base_of
from mainspring.domain.values import shown

DEFAULT_NAMESPACE: Final = "default"
NAMESPACE_LENGTH_MAX: Final = 63

_NAME: Final = re.compile(r"[a-z0-9][a-z0-9-]{0,62}", re.ASCII)
_QUEUE_MARK: Final = "~"
_KEY_MARK: Final = "\x1f"


def check_namespace(value: object, field: str = "namespace") -> str:
    """Accept the name of a namespace: 1 to 63 lower-case letters, digits and hyphens."""
    if isinstance(value, str) and _NAME.fullmatch(value):
        return value
    message = (
        f"{field} is {shown(value)}; a namespace has 1 to {NAMESPACE_LENGTH_MAX} lower-case "
        "letters, digits and hyphens, and does not start with a hyphen"
    )
    raise InvalidValue(message, field=field)


def stored_queue(namespace: str, queue: str) -> str:
    """Return the name under which a queue (or a schedule) of a namespace is stored."""
    return queue if namespace == DEFAULT_NAMESPACE else f"{namespace}{_QUEUE_MARK}{queue}"


def namespace_of(stored: str) -> str:
    """Return the namespace that a stored queue (or schedule) belongs to."""
    namespace, mark, _ = stored.partition(_QUEUE_MARK)
    return namespace if mark else DEFAULT_NAMESPACE


def plain_queue(stored: str) -> str:
    """Return the name of a stored queue (or schedule) as its own namespace knows it, without what
    its tasks need of their worker.
    """
    return base_of(plain_branch(stored))


def plain_branch(stored: str) -> str:
    """Return the name of a stored branch of a queue as its own namespace knows it."""
    return stored.rpartition(_QUEUE_MARK)[2]


def stored_key(namespace: str, key: str) -> str:
    """Return the form in which an idempotency or unique key of a namespace is its own."""
    return key if namespace == DEFAULT_NAMESPACE else f"{_KEY_MARK}{namespace}{_KEY_MARK}{key}"


def plain_key(stored: str | None) -> str | None:
    """Return a stored idempotency or unique key as its caller gave it."""
    return None if stored is None else stored.rpartition(_KEY_MARK)[2]
