"""The handlers, in a module of their own because RQ finds them by their import path."""

import time
from typing import Any

import probe


def noop(payload: dict[str, Any]) -> None:
    del payload
    probe.hit()


def mark(payload: dict[str, Any], number: int, due: float) -> None:
    del payload
    probe.late(number, due)


def slow(number: int, seconds: float) -> None:
    probe.started(number)
    time.sleep(seconds)
    probe.ended(number)
