"""Reading what a caller sends, once it is known who calls.

Every method is served as a stream, which on the wire is the same: so a caller without a key is
refused before its message, and one whose message does not come is let go.
"""

import asyncio
from typing import Final, TypeVar

import grpc
from google.protobuf.message import Message

from mainspring.api.errors import MalformedRequest, RequestTimeout
from mainspring.api.limits import BODY_SECONDS
from mainspring.api.rpc.gate import Context
from mainspring.api.rpc.messages import parse

M = TypeVar("M", bound=Message)

MESSAGE_SECONDS: Final = BODY_SECONDS
"""How long a caller may take for the first message."""


async def first_message(context: Context, kind: type[M], bytes_max: int) -> M:
    """Return the first message of a call, or raise what is wrong with it."""
    try:
        async with asyncio.timeout(MESSAGE_SECONDS):
            data = await context.read()
    except TimeoutError:
        text = f"the message did not arrive within {MESSAGE_SECONDS:g} s; send it sooner"
        raise RequestTimeout(text) from None
    if data is grpc.aio.EOF:
        raise MalformedRequest("the call ended before its first message")
    return parse(kind, data, bytes_max)
