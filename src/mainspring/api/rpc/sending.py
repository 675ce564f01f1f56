"""Sending on a stream, one message after the other, as fast as the other side takes them."""

import asyncio
from typing import Final

import grpc
from google.protobuf.message import Message

from mainspring.api.rpc.gate import Context
from mainspring.api.streams import SEND_SECONDS

_GONE: Final = (TimeoutError, grpc.aio.BaseError)


class Sender:
    """One stream out. Nothing is kept here: whoever sends waits until it was taken."""

    def __init__(self, context: Context) -> None:
        self._context = context
        self._turn = asyncio.Lock()

    async def send(self, message: Message) -> None:
        """Send a message, or raise `ConnectionError` if the other side is gone or takes nothing."""
        data = message.SerializeToString()
        async with self._turn:
            try:
                async with asyncio.timeout(SEND_SECONDS):
                    await self._context.write(data)
            except _GONE as error:
                raise ConnectionAbortedError("the other side takes nothing any more") from error
