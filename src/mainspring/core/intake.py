"""From a task as a client of the API writes it to one that can be stored.

The words are those of REQUIREMENTS section 4; what is not among them is refused, so no client can
set a state, an owner or a token.
"""

from collections.abc import Mapping
from typing import Any, Final

import msgspec

from mainspring.core.access import Principal
from mainspring.core.builtin_tasks import check_builtin
from mainspring.core.options import DEFAULTS, TaskOptions, checked_options, fingerprint
from mainspring.domain.errors import InvalidValue, KeyConflict, PayloadTooLarge
from mainspring.domain.ids import deciding_key
from mainspring.domain.namespaces import stored_key, stored_queue
from mainspring.domain.placement import branch_of
from mainspring.domain.retry import Backoff
from mainspring.domain.task import NewTask, Origin
from mainspring.domain.values import PAYLOAD_BYTES_MAX, check_name, kind_of, shown
from mainspring.ports.clock import IdSource

OPTION_FIELDS: Final = (
    "queue",
    "priority",
    "scheduled_at",
    "delay",
    "timeout",
    "max_retries",
    "retry_backoff",
    "key",
    "labels",
    "group_key",
    "unique_key",
    "webhook",
)
TASK_FIELDS: Final = ("task_type", "payload", *OPTION_FIELDS)
_KNOWN: Final = frozenset(TASK_FIELDS)
_BACKOFF_FIELDS: Final = {
    "kind": "kind",
    "base": "base_seconds",
    "multiplier": "multiplier",
    "max": "max_seconds",
}
_PLAIN: Final = frozenset({"task_type", "payload"})


class Intake:
    """Builds tasks for who asks: in their namespace, and only for queues they may use."""

    def __init__(self, ids: IdSource) -> None:
        self._ids = ids

    def build(
        self,
        principal: Principal,
        given: object,
        *,
        key: str | None = None,
        prefix: str = "",
        origin: Origin | None = None,
    ) -> NewTask:
        """Return a task that the store accepts, or raise `InvalidValue` for the field.

        `given` was decoded with `core.json_text`. `key` is an idempotency key given beside it, and
        `origin` what the audit says of it.
        """
        if not isinstance(given, dict):
            what = prefix.rstrip(".") or "the body"
            message = f"{what} is {kind_of(given)}; give an object with a task_type and a payload"
            raise InvalidValue(message, field=prefix.rstrip(".") or None)
        task_type = check_name(given.get("task_type"), f"{prefix}task_type")
        payload = _payload_text(given.get("payload"), prefix)
        check_builtin(task_type, payload, f"{prefix}payload")
        options = _options(given, key, prefix)
        webhook = options.webhook
        if webhook is not None:
            deliveries = stored_queue(principal.namespace, webhook.queue)
            webhook = msgspec.structs.replace(webhook, queue=deliveries)
        queue = options.queue or DEFAULTS.queue or ""
        stored = _stored_key(principal, options.key)
        unique = _stored_key(principal, options.unique_key)
        return NewTask(
            id=self._ids.task_id(deciding_key(options.group_key, unique, stored)),
            task_type=task_type,
            payload=payload,
            queue=principal.stored_queue(branch_of(queue, options.labels)),
            priority=options.priority,  # type: ignore[arg-type]
            scheduled_at=options.at,
            delay_seconds=options.delay or 0.0,
            timeout_seconds=options.timeout,  # type: ignore[arg-type]
            max_retries=options.max_retries,  # type: ignore[arg-type]
            backoff=options.backoff,  # type: ignore[arg-type]
            key=stored,
            fingerprint=None if stored is None else fingerprint(task_type, payload, options),
            group_key=options.group_key,
            unique_key=unique,
            origin=origin,
            webhook=webhook,
        )


def _stored_key(principal: Principal, key: str | None) -> str | None:
    return None if key is None else stored_key(principal.namespace, key)


def _payload_text(payload: object, prefix: str) -> str:
    if payload is None:
        return "{}"
    if not isinstance(payload, dict):
        message = f"{prefix}payload is {kind_of(payload)}; give an object, the handler's parameters"
        raise InvalidValue(message, field=f"{prefix}payload")
    data = msgspec.json.encode(payload)
    if len(data) > PAYLOAD_BYTES_MAX:
        message = (
            f"{prefix}payload has {len(data):,} bytes; the most is {PAYLOAD_BYTES_MAX:,}, so keep "
            "the data elsewhere and give its address"
        )
        raise PayloadTooLarge(message, field=f"{prefix}payload")
    return data.decode()


def _options(given: Mapping[str, Any], key: str | None, prefix: str) -> TaskOptions:
    if given.keys() <= _PLAIN and key is None:
        return DEFAULTS
    unknown = given.keys() - _KNOWN
    if unknown:
        name = min(unknown)
        known = ", ".join(TASK_FIELDS)
        message = f"{prefix}{shown(name)[1:-1]} is not a field of a new task; there are: {known}"
        raise InvalidValue(message, field=f"{prefix}{shown(name)[1:-1]}")
    chosen = {name: given.get(name) for name in OPTION_FIELDS}
    chosen["retry_backoff"] = backoff_of(chosen["retry_backoff"], f"{prefix}retry_backoff")
    if isinstance(chosen["labels"], str):
        message = f"{prefix}labels is {shown(chosen['labels'])}; give a list of labels"
        raise InvalidValue(message, field=f"{prefix}labels")
    if key is not None:
        if chosen["key"] is not None and chosen["key"] != key:
            message = "key in the body and the header Idempotency-Key differ; give one of them"
            raise KeyConflict(message, field=f"{prefix}key")
        if chosen["unique_key"] is not None:
            message = "unique_key and the header Idempotency-Key are both given; keep one of them"
            raise KeyConflict(message, field=f"{prefix}unique_key")
        chosen["key"] = key
    return checked_options(chosen, prefix).over(DEFAULTS)


def backoff_of(value: object, field: str) -> object:
    """Accept the name of a kind, or an object with its times."""
    if not isinstance(value, dict):
        return value
    unknown = value.keys() - _BACKOFF_FIELDS.keys()
    if unknown or value.get("kind") is None:
        known = ", ".join(_BACKOFF_FIELDS)
        message = f"{field} is {shown(value)}; give an object with a kind and of {known} the others"
        raise InvalidValue(message, field=field)
    given = {_BACKOFF_FIELDS[name]: part for name, part in value.items() if part is not None}
    return msgspec.structs.replace(Backoff(), **given)
