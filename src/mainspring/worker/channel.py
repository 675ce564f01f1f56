"""Frames of messages over a stream socket: four bytes of length, then a list in msgpack.

Many messages travel in one frame and one system call; a side collects what it has to say during
one turn of its event loop and sends it at the end of the turn.
"""

import asyncio
from collections.abc import Callable, Iterator
from typing import Any, Final, Protocol, cast

import msgspec

from mainspring.worker.messages import FRAME_BYTES_MAX

_HEADER_BYTES: Final = 4
_ENCODER: Final = msgspec.msgpack.Encoder(uuid_format="bytes")


def encode_frame(messages: list[Any]) -> bytes:
    """Return the bytes of one frame."""
    body = _ENCODER.encode(messages)
    return len(body).to_bytes(_HEADER_BYTES, "big") + body


class FrameReader:
    """Cuts a stream of bytes, which arrives in any pieces, into the bodies of frames."""

    def __init__(self) -> None:
        self._buffer = bytearray()

    def feed(self, data: bytes) -> Iterator[bytes]:
        """Yield the bodies that are complete with this piece; the rest waits for the next one."""
        buffer = self._buffer
        buffer += data
        start = 0
        while len(buffer) - start >= _HEADER_BYTES:
            body = start + _HEADER_BYTES
            length = int.from_bytes(buffer[start:body], "big")
            if length > FRAME_BYTES_MAX:
                message = f"a frame of {length} bytes announces itself: the channel is corrupt"
                raise ValueError(message)
            if len(buffer) < body + length:
                break
            yield bytes(buffer[body : body + length])
            start = body + length
        del buffer[:start]


class Receiver(Protocol):
    """Who listens on a channel."""

    def received(self, messages: list[Any]) -> None:
        """Called with the messages of one frame, in order."""
        ...

    def disconnected(self) -> None:
        """Called once, when the other side is gone."""
        ...


class Channel(asyncio.Protocol):
    """One end of a connection between the agent and a runner."""

    def __init__(self, kind: Any, receiver: Receiver) -> None:
        self._decode: Callable[[bytes], list[Any]] = msgspec.msgpack.Decoder(list[kind]).decode
        self._receiver = receiver
        self._reader = FrameReader()
        self._outbox: list[Any] = []
        self._loop = asyncio.get_running_loop()
        self._transport: asyncio.Transport | None = None

    def send(self, message: Any) -> None:
        """Send a message at the end of this turn of the event loop, with all others of the turn."""
        if not self._outbox:
            self._loop.call_soon(self._flush)
        self._outbox.append(message)

    def close(self) -> None:
        """Send what is left and close."""
        self._flush()
        if self._transport is not None:
            self._transport.close()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Called by the event loop."""
        # Of whatever loop: not all of them derive their transports from asyncio's classes.
        self._transport = cast("asyncio.Transport", transport)

    def data_received(self, data: bytes) -> None:
        """Called by the event loop."""
        for body in self._reader.feed(data):
            self._receiver.received(self._decode(body))

    def connection_lost(self, exc: Exception | None) -> None:
        """Called by the event loop."""
        del exc
        self._transport = None
        self._receiver.disconnected()

    def _flush(self) -> None:
        messages, self._outbox = self._outbox, []
        if messages and self._transport is not None:
            self._transport.write(encode_frame(messages))
