"""The bad inputs of every kind, the places where they may arrive, and what each may answer."""

import json
from collections.abc import Iterator
from typing import Any, NamedTuple
from uuid import UUID

REFUSED = frozenset({400, 413, 415, 422})
NOBODY = str(UUID(int=7 << 76 | 2 << 62))
"""The id of no task."""


class Place(NamedTuple):
    """A request that is fine, but for what a test puts into it."""

    method: str
    path: str
    body: dict[str, Any]
    fine: frozenset[int] = frozenset({200})
    """What it answers as it is."""

    in_list: str = ""
    """The body is one entry of a list of this name."""

    optional: bool = False
    """It may have no body at all."""

    def sent(self, body: Any) -> Any:
        return {self.in_list: [body]} if self.in_list else body


_LEASE = {"worker_id": "w", "task_id": NOBODY, "fencing_token": 1}
_GONE = frozenset({404})
PLACES = {
    "submit": Place("POST", "/v1/tasks", {"task_type": "t"}, frozenset({201})),
    "batch": Place("POST", "/v1/tasks/batch", {"task_type": "t"}, frozenset({201}), "tasks"),
    "cancel": Place("POST", f"/v1/tasks/{NOBODY}/cancel", {"reason": "r"}, _GONE, optional=True),
    "reschedule": Place(
        "POST", f"/v1/tasks/{NOBODY}/reschedule", {"scheduled_at": "2030-01-01T00:00:00Z"}, _GONE
    ),
    "schedule": Place(
        "POST",
        "/v1/schedules",
        {"name": "s", "task_type": "t", "cron": "0 9 * * *", "on_conflict": "replace"},
        frozenset({200, 201}),
    ),
    "schedule once": Place(
        "POST",
        "/v1/schedules",
        {"name": "o", "task_type": "t", "at": "2100-01-01T00:00:00Z", "on_conflict": "replace"},
        frozenset({200, 201}),
    ),
    "schedule change": Place("PATCH", "/v1/schedules/s", {"priority": 5}),
    "preview": Place("POST", "/v1/schedules/preview", {"cron": "0 9 * * *", "count": 3}),
    "backfill": Place(
        "POST",
        "/v1/schedules/s/backfill",
        {"start": "2026-01-01T00:00:00Z", "end": "2026-01-02T00:00:00Z", "dry_run": True},
    ),
    "trigger": Place(
        "POST", "/v1/schedules/none/trigger", {"overlap": "allow"}, _GONE, optional=True
    ),
    "pause": Place("POST", "/v1/schedules/none/pause", {"note": "n"}, _GONE, optional=True),
    "limit": Place("PUT", "/v1/queues/q/limits", {"queue": {"concurrency": 9}}),
    "limit group": Place("PUT", "/v1/queues/q/limits/groups/g", {"rate": 9, "burst": 9}),
    "claim": Place("POST", "/v1/leases", {"worker_id": "w", "task_types": ["none"]}),
    "heartbeat": Place(
        "POST", "/v1/leases/heartbeat", {"worker_id": "w", "leases": [{**_LEASE, "worker_id": ""}]}
    ),
    "complete": Place("POST", "/v1/leases/complete", {**_LEASE, "result": {}}, _GONE),
    "fail": Place("POST", "/v1/leases/fail", {**_LEASE, "error": "e"}, _GONE),
    "replay": Place("POST", "/v1/dead-letters/replay", {"ids": [NOBODY], "payload": {}}, _GONE),
    "discard": Place("POST", "/v1/dead-letters/discard", {"ids": [NOBODY], "reason": "r"}, _GONE),
    "graphql": Place("POST", "/graphql", {"query": "{ queues { queue } }"}),
}
del PLACES["heartbeat"].body["leases"][0]["worker_id"]

QUERIES = {
    "tasks": ("/v1/tasks", ("task_type", "queue", "schedule", "since", "until", "cursor", "limit")),
    "dead letters": ("/v1/dead-letters", ("task_type", "queue", "cursor", "limit")),
    "history": ("/v1/schedules/s/history", ("before", "limit")),
}

DEEP = 2_000
_X = '"x":'
BODIES: dict[str, tuple[bytes, frozenset[int]]] = {
    name: (text, frozenset(statuses))
    for name, (text, statuses) in {
        "empty": (b"", {400}),
        "brace": (b"{", {400}),
        "list": (b"[]", {400, 422}),
        "null": (b"null", {400, 422}),
        "text": (b'"x"', {400, 422}),
        "number": (b"5", {400, 422}),
        "trailing comma": (b"{%s,}", {400}),
        "byte order mark": (b"\xef\xbb\xbf{%s}", {400}),
        "invalid utf-8": (b'{%s,"x":"\xff"}', {400}),
        "overlong utf-8": (b'{%s,"x":"\xc0\x80"}', {400}),
        "surrogate bytes": (b'{%s,"x":"\xed\xa0\x80"}', {400}),
        "two values": (b"{%s}{%s}", {400}),
        "key twice": (b"{%s,%s}", {400}),
        "deep lists": (b'{%s,"x":' + b"[" * DEEP + b"]" * DEEP + b"}", {400, 413}),
        "deep objects": (b'{%s,"x":' + b'{"a":' * DEEP + b"1" + b"}" * DEEP + b"}", {400, 413}),
        "66 deep": (b'{%s,"x":' + b"[" * 66 + b"]" * 66 + b"}", {400}),
        "no number": (b'{%s,"x":NaN}', {400}),
        "infinity": (b'{%s,"x":-Infinity}', {400}),
        "1e999": (b'{%s,"x":1e999}', {400}),
        "1e130000": (b'{%s,"x":1e130000}', {400}),
        "4301 digits": (b'{%s,"x":' + b"1" * 4301 + b"}", {400}),
        "too many decimals": (b'{%s,"x":0.12345678901234567891}', {400}),
        "nul": (b'{%s,"x":"\\u0000"}', {400}),
        "high surrogate": (b'{%s,"x":"\\ud800"}', {400}),
        "low surrogate": (b'{%s,"x":"\\udc00"}', {400}),
        "raw control": (b'{%s,"x":"\x01"}', {400}),
        "10,001 keys": (
            b'{%s,"x":{' + b",".join(b'"%d":1' % n for n in range(10_001)) + b"}}",
            {400, 413},
        ),
        "big key": (b'{%s,"' + b"k" * 50_000 + b'":1}', {400, 413, 422}),
        "unknown field": (b'{%s,"x":1}', {400, 422}),
        "more than 1 MiB": (b'{%s,"x":"' + b"y" * (1 << 20) + b'"}', {400, 413}),
    }.items()
}
"""Whole bodies; %s stands for the fields of a good one."""

TEXTS = {
    "empty": "",
    "spaces": "   ",
    "dots": "../../x",
    "newline": "a\nb",
    "ansi": "\x1b[2J",
    "right to left": "a\u202eb",
    "combining marks": "e" + "\u0301" * 1000,
    "too long": "a" * 201,
    "sql": "'; DROP TABLE mainspring.tasks; --",
    "redis": "x\r\nFLUSHALL",
    "template": "{{7*7}}",
    "jndi": "${jndi:ldap://x}",
    "html": "<img src=x onerror=alert(1)>",
    "foreign": "acme~q",
}
NAMES = {**TEXTS, "number": 5, "list": [], "true": True}
INSTANTS = {
    "year 0": "0000-01-01T00:00:00Z",
    "year 1 +14": "0001-01-01T00:00:00+14:00",
    "year 9999 -12": "9999-12-31T23:59:59-12:00",
    "year 10000": "10000-01-01T00:00:00Z",
    "bc": "-0044-03-15T00:00:00Z",
    "infinity": "infinity",
    "24 o'clock": "2027-01-01T24:00:00Z",
    "60 seconds": "2027-01-01T00:00:60Z",
    "29 february": "2027-02-29T00:00:00Z",
    "no offset": "2027-01-01T00:00:00",
    "offset 99": "2027-01-01T00:00:00+99:99",
    "epoch": 1_800_000_000,
    "1e15": 1e15,
    "empty": "",
    "words": "now",
    "digits of another script": "٢٠٢٧-01-01T00:00:00Z",
}
ZONES = {
    "mars": "Mars/Phobos",
    "empty": "",
    "posix": "FOO+5",
    "posix rules": "EST5EDT,M3.2.0",
    "path": "../../etc/passwd",
    "absolute": "/etc/localtime",
    "directory": "Europe",
    "machine's own": "localtime",
    "long": "A" * 10_000,
    "number": 5,
}
CRONS = {
    "every 0": "*/0 * * * *",
    "range by 0": "0-59/0 * * * *",
    "77": "77 * * * *",
    "backwards": "5-1 * * * *",
    "long": ",".join(["1"] * 5_000) + " * * * *",
    "31 february": "0 0 31 2 *",
    "reboot": "@reboot",
    "every": "@every 1ns",
    "other digits": "٣ * * * *",
    "8 fields": "0 0 0 1 1 * 2027 x",
    "empty": "",
    "spaces": "   ",
    "words": "tomorrow at nine",
    "newline": "0 9 * * *\nx",
}
KEYS = {"empty": "", "256": "k" * 256, "16 kB": "k" * 16_384, "line": "a\nb", "number": 5}
WHOLE = {"-1": -1, "-2^31": -(2**31), "2^63": 2**63, "2^64": 2**64, "1.5": 1.5, "text": "5"}
SECONDS = {"-1": -1, "1e308": 1e308, "2^64": 2**64, "text": "30", "true": True, "list": []}
RATES = {
    "0": 0,
    "-1": -1,
    "1e7": 1e7,
    "0/s": "0/s",
    "no span": "100",
    "weeks": "1/w",
    "spaces": "1 /s",
    "minus": "-1/s",
    "other digits": "٣/s",
    "long": "1" * 21 + "/s",
    "true": True,
    "list": [],
}
CURSORS = {"text": "x", "zeros": "A" * 28, "long": "A" * 200, "url": "http://x/", "empty": ""}
OBJECTS = {
    "list": [],
    "text": "x",
    "number": 5,
    "too big": {"a": "x" * 262_144},
}

FIELDS: dict[str, dict[str, Any]] = {
    **dict.fromkeys(("task_type", "queue", "name", "worker_id"), NAMES),
    **dict.fromkeys(
        ("scheduled_at", "at", "anchor", "start_at", "end_at", "after", "start", "end"), INSTANTS
    ),
    "timezone": ZONES,
    "cron": CRONS,
    **dict.fromkeys(("key", "group_key", "unique_key"), KEYS),
    **dict.fromkeys(("priority", "max_retries", "count", "limit", "fencing_token"), WHOLE),
    **dict.fromkeys(
        (
            "timeout",
            "delay",
            "jitter",
            "misfire_window",
            "start_deadline",
            "lease_seconds",
            "wait_seconds",
            "retry_after",
        ),
        SECONDS,
    ),
    "payload": OBJECTS,
    "task_id": {"text": "x", "empty": "", "path": "../x", "number": 5, "nul": "\x01"},
    "task_types": {"none": [], "text": "x", "many": ["t"] * 1001, "bad": ["a b"]},
    "ids": {"none": [], "text": "x", "bad": ["x"], "many": [NOBODY] * 10_001},
    "leases": {"none": [], "text": "x", "many": [{"task_id": NOBODY, "fencing_token": 1}] * 1001},
    "reason": {"number": 5, "long": "x" * 1001},
    "note": {"number": 5, "long": "x" * 1001},
    "error": {"number": 5, "empty": "", "long": "x" * 8193},
    "traceback": {"number": 5, "long": "x" * 65_537},
    "retry_backoff": {"word": "sometimes", "unknown": {"kind": "linear", "x": 1}, "number": 5},
    "overlap": {"word": "sometimes", "number": 5},
    "misfire": {"word": "sometimes", "number": 5},
    "exclusions": {"text": "x", "many": [{}] * 101},
    "kind": {"word": "boredom", "number": 5},
    "concurrency": {**WHOLE, "0": 0, "true": True, "100001": 100_001},
    "burst": {**WHOLE, "0": 0, "true": True, "1000001": 1_000_001},
    "rate": {**RATES},
    "group": {"text": "x", "list": [], "number": 5, "unknown": {"x": 1}, "bad": {"rate": "0/s"}},
    "levels": {"word": ["lowest"], "text": "low"},
    "query": {"empty": "", "number": 5, "too long": "#" * 70_000},
    "variables": {"text": "x", "list": []},
    "operationName": {"number": 5, "too long": "x" * 300},
}
"""What is wrong in each field, whatever the place; each is refused."""


def filled(template: bytes, place: Place) -> bytes:
    """Put the fields of a good body into a bad one."""
    good = json.dumps(place.sent(place.body)).encode()[1:-1]
    return template.replace(b"%s", good)


def field_cases(place: Place, fields: set[str]) -> Iterator[tuple[str, Any]]:
    """Yield a name and a body for every value that a field of the place may not have."""
    for field in sorted(fields & FIELDS.keys()):
        for name, value in FIELDS[field].items():
            body = {**place.body, field: value}
            if field in {"at", "every"}:
                body.pop("cron", None)
            yield f"{field}: {name}", place.sent(body)


def query_cases() -> Iterator[tuple[str, dict[str, str]]]:
    """Yield a path and a query with one value that may not be."""
    kinds: dict[str, dict[str, Any]] = {
        "since": INSTANTS,
        "until": INSTANTS,
        "before": INSTANTS,
        "cursor": CURSORS,
    }
    for path, names in QUERIES.values():
        for name in names:
            values = kinds.get(name, FIELDS.get(name, TEXTS))
            for value in values.values():
                if not isinstance(value, str | int | float) or value in {"5", 5, True}:
                    continue
                yield path, {name: str(value)}
