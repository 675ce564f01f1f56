"""Sending an answer piece by piece, with bounds on what a slow or silent client can hold."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import Any, Final

STREAM_TYPE: Final = "text/event-stream"
STILL_HERE: Final = b": still here\n\n"
"""A comment, which clients do not show; a proxy between sees that the stream is in use."""

SEND_SECONDS: Final = 30.0
"""A client that takes nothing for so long is let go."""


async def send_stream(stream: AsyncGenerator[bytes, None], receive: Any, send: Any) -> None:
    """Send until the stream ends, the client leaves, or it takes nothing any more."""
    sending = asyncio.current_task()
    assert sending is not None
    leaving = asyncio.create_task(_end_when_left(receive, sending))
    try:
        async with aclosing(stream):
            async for piece in stream:
                async with asyncio.timeout(SEND_SECONDS):
                    await send({"type": "http.response.body", "body": piece, "more_body": True})
        await send({"type": "http.response.body", "body": b""})
    except TimeoutError:
        return
    except asyncio.CancelledError:
        # By us if the client has left; whoever else ends this task means it.
        if not leaving.done() or sending.uncancel():
            raise
    finally:
        leaving.cancel()


async def _end_when_left(receive: Any, sending: asyncio.Task[Any]) -> None:
    await has_left(receive)
    sending.cancel()


async def has_left(receive: Any) -> None:
    """Return when the client has left. Nothing else is to be received any more."""
    while (await receive())["type"] != "http.disconnect":
        pass
