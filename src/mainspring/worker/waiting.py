"""Waiting for whichever happens first."""

import asyncio


async def first_of(seconds: float, *events: asyncio.Event) -> None:
    """Wait until one of the events is set, but not for longer than so many seconds."""
    if seconds <= 0 or any(event.is_set() for event in events):
        return
    waits = [asyncio.ensure_future(event.wait()) for event in events]
    try:
        await asyncio.wait(waits, timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for wait in waits:
            wait.cancel()
