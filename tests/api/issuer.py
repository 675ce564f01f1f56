"""An identity provider: keys, tokens, and a web server that has its documents."""

import asyncio
import json
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import jwt
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

AUDIENCE = "mainspring"
DISCOVERY = "/.well-known/openid-configuration"
ALGORITHMS: dict[str, Any] = {
    "RS256": jwt.algorithms.RSAAlgorithm,
    "ES256": jwt.algorithms.ECAlgorithm,
    "EdDSA": jwt.algorithms.OKPAlgorithm,
}


def new_private_key(algorithm: str) -> Any:
    if algorithm == "RS256":
        return rsa.generate_private_key(65537, 2048)
    if algorithm == "ES256":
        return ec.generate_private_key(ec.SECP256R1())
    return ed25519.Ed25519PrivateKey.generate()


class Issuer:
    """Has one key of each kind; `documents` is what its web server answers, by path."""

    def __init__(self, url: str = "https://login.example.com") -> None:
        self.url = url
        self.keys = {algorithm: new_private_key(algorithm) for algorithm in ALGORITHMS}
        self.names = {algorithm: f"{algorithm}-1" for algorithm in ALGORITHMS}
        self.documents: dict[str, bytes] = {}
        self.asked: list[str] = []
        self.is_down = False
        self.is_silent = False

    def rotate(self, algorithm: str) -> None:
        """Take a new key, as one does when the old one is old or stolen."""
        self.keys[algorithm] = new_private_key(algorithm)
        self.names[algorithm] += "1"
        self.publish()

    def key_set(self) -> dict[str, Any]:
        entries = []
        for algorithm, key in self.keys.items():
            entry = json.loads(ALGORITHMS[algorithm].to_jwk(key.public_key()))
            entries.append({**entry, "kid": self.names[algorithm], "use": "sig"})
        return {"keys": entries}

    def publish(self) -> None:
        discovery = {"issuer": self.url, "jwks_uri": f"{self.url}/keys"}
        self.documents = {
            DISCOVERY: json.dumps(discovery).encode(),
            "/keys": json.dumps(self.key_set()).encode(),
        }

    def public_pem(self, algorithm: str) -> bytes:
        public = self.keys[algorithm].public_key()
        pem: bytes = public.public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)
        return pem

    def claims(self, **changes: Any) -> dict[str, Any]:
        """Good claims, with some replaced, or left out where the change is None."""
        now = time.time()
        claims = {
            "iss": self.url,
            "aud": AUDIENCE,
            "sub": "ada",
            "iat": now,
            "nbf": now,
            "exp": now + 300,
            "scope": "openid mainspring:submit mainspring:read",
            **changes,
        }
        return {name: value for name, value in claims.items() if value is not None}

    def token(
        self, algorithm: str = "RS256", headers: dict[str, Any] | None = None, **changes: Any
    ) -> str:
        named = {"kid": self.names[algorithm], **(headers or {})}
        return jwt.encode(self.claims(**changes), self.keys[algorithm], algorithm, named)


@asynccontextmanager
async def served(issuer: Issuer) -> AsyncIterator[Issuer]:
    """Serve an issuer's documents on this machine."""

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = await reader.readuntil(b"\r\n\r\n")
        path = head.split()[1].decode()
        issuer.asked.append(path)
        if issuer.is_silent:
            await reader.read()
        if not issuer.is_down:
            body = issuer.documents.get(path)
            status = b"404 Not Found" if body is None else b"200 OK"
            if body is not None and body.startswith(b"Location: "):
                status, body = b"302 Found\r\n" + body, b""
            length = b"\r\ncontent-length: %d\r\nconnection: close\r\n\r\n" % len(body or b"")
            writer.write(b"HTTP/1.1 " + status + length + (body or b""))
        writer.close()

    server = await asyncio.start_server(answer, "127.0.0.1", 0)
    issuer.url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    issuer.publish()
    async with server:
        yield issuer
