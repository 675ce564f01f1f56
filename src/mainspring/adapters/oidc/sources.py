"""Where the keys of an issuer come from: its own server, or a file.

The server is asked for one configured URL without following it anywhere else, and its answer is
bounded in time and size: it is another's word until the signature of a token has been checked.
"""

import asyncio
import ssl
from pathlib import Path
from typing import Any, Final, Protocol
from urllib.parse import urlsplit

import httpx
import msgspec

from mainspring.config import is_safe_url

ANSWER_BYTES_MAX: Final = 256 * 1024
ANSWER_SECONDS: Final = 3.0
"""Less than a request to the API may take, which waits for it where its key is not known."""

_WELL_KNOWN: Final = "/.well-known/openid-configuration"


class KeysUnavailable(Exception):
    """The keys of the issuer could not be read; the text says why."""


class KeySource(Protocol):
    """Gives the document with the keys of an issuer."""

    async def read(self) -> dict[str, Any]:
        """Return the key set, or raise `KeysUnavailable`."""
        ...


class KeyFile:
    """A key set in a file."""

    def __init__(self, path: Path) -> None:
        self._path = path

    async def read(self) -> dict[str, Any]:
        """Return the key set, or raise `KeysUnavailable`."""
        try:
            data = await asyncio.to_thread(self._path.read_bytes)
        except OSError as error:
            raise KeysUnavailable(f"{self._path} cannot be read: {error.strerror}") from None
        return _object(data, str(self._path))


class KeyServer:
    """The key set at a URL, or at the one that the issuer's discovery document names."""

    def __init__(self, issuer: str, url: str = "") -> None:
        self._issuer = issuer
        self._url = url
        self._tls = ssl.create_default_context()

    async def read(self) -> dict[str, Any]:
        """Return the key set, or raise `KeysUnavailable`."""
        try:
            async with asyncio.timeout(ANSWER_SECONDS), self._client() as client:
                url = self._url or await self._discovered(client)
                return await _fetched(client, url)
        except TimeoutError:
            raise KeysUnavailable(f"no answer within {ANSWER_SECONDS:g} s") from None
        except (httpx.HTTPError, httpx.InvalidURL) as error:
            raise KeysUnavailable(f"{type(error).__name__}: {error}") from None

    def _client(self) -> httpx.AsyncClient:
        # No proxy and no credentials out of the environment, and no other address than this one.
        return httpx.AsyncClient(
            verify=self._tls, timeout=ANSWER_SECONDS, follow_redirects=False, trust_env=False
        )

    async def _discovered(self, client: httpx.AsyncClient) -> str:
        found = await _fetched(client, self._issuer.rstrip("/") + _WELL_KNOWN)
        if found.get("issuer") != self._issuer:
            raise KeysUnavailable("the discovery document is that of another issuer")
        url = found.get("jwks_uri")
        if not isinstance(url, str) or not is_safe_url(url) or not _same_host(url, self._issuer):
            raise KeysUnavailable(
                "the discovery document names no key set on the issuer's own host; if it is right, "
                "set oidc_jwks_url"
            )
        return url


async def _fetched(client: httpx.AsyncClient, url: str) -> dict[str, Any]:
    headers = {"accept": "application/json", "accept-encoding": "identity"}
    async with client.stream("GET", url, headers=headers) as answer:
        if answer.status_code != httpx.codes.OK:
            raise KeysUnavailable(f"{url} answered {answer.status_code}")
        data = b""
        # Raw: what was packed small may unpack without end.
        async for part in answer.aiter_raw():
            data += part
            if len(data) > ANSWER_BYTES_MAX:
                raise KeysUnavailable(f"{url} answered with more than {ANSWER_BYTES_MAX:,} bytes")
    return _object(data, url)


def _object(data: bytes, where: str) -> dict[str, Any]:
    try:
        return msgspec.json.decode(data[: ANSWER_BYTES_MAX + 1], type=dict[str, Any])
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError):
        raise KeysUnavailable(f"{where} is no JSON object") from None


def _same_host(one: str, other: str) -> bool:
    return urlsplit(one)[:2] == urlsplit(other)[:2]
