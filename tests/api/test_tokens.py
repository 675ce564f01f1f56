"""Bearer tokens of an identity provider: what they open, and everything that is none."""

import asyncio
import base64
import json
import time
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import jwt
import pytest

from api.conftest import Api, started
from api.issuer import AUDIENCE, Issuer, new_private_key, served
from mainspring.ports.access import Scope


@pytest.fixture(scope="module")
def issuer() -> Issuer:
    return Issuer()


@pytest.fixture
async def api(database: str, issuer: Issuer, tmp_path: Path) -> AsyncIterator[Api]:
    keys = tmp_path / "keys.json"
    keys.write_text(json.dumps(issuer.key_set()))
    async with started(
        database, oidc_issuer=issuer.url, oidc_audience=AUDIENCE, oidc_jwks_file=str(keys)
    ) as running:
        yield running


async def test_a_token_opens_what_its_claims_say(api: Api, issuer: Issuer) -> None:
    for algorithm in issuer.keys:
        async with api.with_key(issuer.token(algorithm)) as ada:
            sent = await ada.post("/v1/tasks", json={"task_type": "t"})
            assert sent.status_code == 201
            assert (await ada.get(f"/v1/tasks/{sent.json()['task_id']}")).status_code == 200
            assert (await ada.post("/v1/queues/default/pause")).status_code == 403
    acme = issuer.token(
        scope=["mainspring:submit", "mainspring:read", "mainspring:admin"],
        aud=["other", AUDIENCE],
        mainspring_namespace="acme",
        mainspring_queues="mail web",
        sub="system:robot",
    )
    async with api.with_key(acme) as robot:
        mail = {"task_type": "t", "queue": "mail"}
        assert (await robot.post("/v1/tasks", json=mail)).status_code == 201
        assert (await robot.post("/v1/tasks", json={"task_type": "t"})).status_code == 403
        assert len((await robot.get("/v1/tasks")).json()["tasks"]) == 1
    (_, last), *_, (_, first) = await api.store.audit(10)
    assert (last.actor, last.namespace) == ("oidc:system%3Arobot", "acme")
    assert (first.actor, first.namespace, first.action) == ("oidc:ada", "default", "task.submit")


async def test_keys_are_accepted_beside_tokens(api: Api) -> None:
    async with await api.client(Scope.READ) as client:
        assert (await client.get("/v1/tasks")).status_code == 200


def part(value: Any) -> str:
    data = value if isinstance(value, bytes) else json.dumps(value).encode()
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


def unsigned(issuer: Issuer, header: dict[str, Any], signature: str = "") -> str:
    return f"{part(header)}.{part(issuer.claims())}.{signature}"


def forged_signatures(issuer: Issuer) -> Iterator[tuple[str, str]]:
    now = time.time()
    good = issuer.token()
    head, body, signature = good.split(".")
    name = issuer.names["RS256"]
    stranger = new_private_key("RS256")
    own_key = json.loads(jwt.algorithms.RSAAlgorithm.to_jwk(stranger.public_key()))

    def by_stranger(**headers: Any) -> str:
        return jwt.encode(issuer.claims(), stranger, "RS256", {"kid": name, **headers})

    def with_secret(secret: bytes) -> str:
        text = f"{part({'alg': 'HS256', 'typ': 'JWT', 'kid': name})}.{body}"
        algorithm = jwt.algorithms.HMACAlgorithm(jwt.algorithms.HMACAlgorithm.SHA256)
        return f"{text}.{part(algorithm.sign(text.encode(), secret))}"

    yield "no algorithm", unsigned(issuer, {"alg": "none", "kid": name})
    yield "none in capitals", unsigned(issuer, {"alg": "NONE", "kid": name}, signature)
    yield "the public key as a secret", with_secret(issuer.public_pem("RS256"))
    yield "an empty secret", with_secret(b"")
    yield (
        "an algorithm that is not allowed",
        jwt.encode(issuer.claims(), issuer.keys["RS256"], "RS512", {"kid": name}),
    )
    yield "an algorithm of another kind of key", issuer.token("ES256", {"kid": name})
    yield "signed by a stranger", by_stranger()
    yield "a key of its own in the head", by_stranger(jwk=own_key)
    yield "a place of its own for keys", by_stranger(jku="https://evil.example/keys")
    yield "a certificate of its own", by_stranger(x5u="https://evil.example/c", x5c=["AAAA"])
    yield "an unknown key", by_stranger(kid="unknown")
    yield "a path as key", issuer.token(headers={"kid": "../../../../dev/null"})
    yield "SQL as key", issuer.token(headers={"kid": "' OR 1=1 --"})
    yield "a number as key", unsigned(issuer, {"alg": "RS256", "kid": 1}, signature)
    yield "no key", unsigned(issuer, {"alg": "RS256"}, signature)
    yield "a critical extension", issuer.token(headers={"crit": ["exp"], "exp": now})
    yield "a token for something else", issuer.token(headers={"typ": "logout+jwt"})
    yield "other claims", f"{head}.{part(issuer.claims(sub='root'))}.{signature}"
    yield "no signature", f"{head}.{body}."
    yield "half a signature", good[:-20]
    yield "nine kilobytes", issuer.token(more="x" * 9 * 1024)
    yield "no JSON", f"{part(b'{')}.{body}.{signature}"
    yield "deep JSON", f"{part(b'[' * 5000)}.{body}.{signature}"
    yield "no base64", f"{head}.%%%.{signature}"
    yield "dots", ".."


def wrong_claims(issuer: Issuer) -> Iterator[tuple[str, str]]:
    now = time.time()
    yield "expired", issuer.token(nbf=now - 300, exp=now - 31)
    yield "not yet valid", issuer.token(nbf=now + 60)
    yield "issued in the future", issuer.token(iat=now + 60)
    yield "valid for ever", issuer.token(exp=now + 90_000)
    yield "valid for ever without a beginning", issuer.token(nbf=None, exp=now + 90_000)
    yield "issued long before", issuer.token(iat=now - 90_000)
    yield "ends before it was issued", issuer.token(nbf=None, iat=now + 20, exp=now + 10)
    yield "a beginning that is no number", signed(issuer, {"nbf": "now"})
    yield "ends before it begins", issuer.token(nbf=now + 20, exp=now + 10)
    yield "another audience", issuer.token(aud="other")
    yield "an audience that begins as ours", issuer.token(aud=f"{AUDIENCE}2")
    yield "another issuer", issuer.token(iss="https://evil.example")
    yield "an issuer that begins as ours", issuer.token(iss=f"{issuer.url}.evil.example")
    yield "an issuer with a slash more", issuer.token(iss=f"{issuer.url}/")
    for claim in ("iss", "aud", "sub", "exp", "iat"):
        yield f"without {claim}", issuer.token("RS256", None, **{claim: None})
    for value in ("9999999999", True, [1], float("inf")):
        yield f"exp {value}", signed(issuer, {"exp": value})
    yield "a subject with a line break", issuer.token(sub="ada\nadmin")
    yield "a namespace that is none", issuer.token(mainspring_namespace="a~b")
    yield "a namespace that is no text", issuer.token(mainspring_namespace=["acme"])
    yield "queues that are none", issuer.token(mainspring_queues={"a": 1})


def signed(issuer: Issuer, changes: dict[str, Any]) -> str:
    """A token with claims that the library itself refuses to sign."""
    key = issuer.keys["RS256"]
    head = part({"alg": "RS256", "kid": issuer.names["RS256"]})
    text = f"{head}.{part(issuer.claims() | changes)}"
    algorithm = jwt.algorithms.RSAAlgorithm(jwt.algorithms.RSAAlgorithm.SHA256)
    return f"{text}.{part(algorithm.sign(text.encode(), key))}"


async def test_whatever_is_no_token_is_told_the_same(api: Api, issuer: Issuer) -> None:
    told = set()
    count = 0
    async with api.with_key(None) as client:
        good = {"authorization": f"Bearer {issuer.token()}"}
        assert (await client.get("/v1/tasks", headers=good)).status_code == 200
        for why, token in (*forged_signatures(issuer), *wrong_claims(issuer)):
            headers = {"authorization": f"Bearer {token}"}
            answer = await client.get("/v1/tasks", headers=headers)
            assert answer.status_code == 401, why
            problem = answer.json()
            told.add((problem["code"], problem["detail"], problem.get("field")))
            count += 1
    assert len(told) == 1
    assert count > 40


async def test_clocks_may_be_half_a_minute_apart(api: Api, issuer: Issuer) -> None:
    now = time.time()
    apart: tuple[dict[str, Any], ...] = (
        {"nbf": now - 300, "exp": now - 20},
        {"nbf": now + 20, "iat": now + 20},
    )
    for times in apart:
        async with api.with_key(issuer.token(**times)) as client:
            assert (await client.get("/v1/tasks")).status_code == 200


async def test_an_issuer_need_not_say_from_when_on_a_token_is_valid(
    api: Api, issuer: Issuer
) -> None:
    async with api.with_key(issuer.token(nbf=None)) as client:
        assert (await client.get("/v1/tasks")).status_code == 200


async def test_a_stream_ends_with_its_token(api: Api, issuer: Issuer) -> None:
    async with (
        api.with_key(issuer.token()) as other,
        api.with_key(issuer.token(exp=time.time() + 2)) as client,
    ):
        task_id = (await client.post("/v1/tasks", json={"task_type": "t", "delay": 600})).json()[
            "task_id"
        ]
        path = f"/v1/tasks/{task_id}/events"
        async with client.stream("GET", path) as stream, other.stream("GET", path) as longer:
            kept = longer.aiter_lines()
            assert await anext(kept)
            async with asyncio.timeout(5):
                async for _ in stream.aiter_lines():
                    pass
            # The same subject with a token that still counts.
            assert not longer.is_closed


async def test_a_server_that_is_asked_for_keys(database: str) -> None:
    """Discovery, a new key, and an issuer that is not who it should be."""
    async with served(Issuer()) as issuer:
        settings = {"oidc_issuer": issuer.url, "oidc_audience": AUDIENCE}
        async with started(database, **settings) as api:
            async with api.with_key(issuer.token()) as client:
                assert (await client.get("/v1/tasks")).status_code == 200
            assert issuer.asked == ["/.well-known/openid-configuration", "/keys"]
        issuer.documents = {
            "/.well-known/openid-configuration": b'{"issuer":"https://evil.example"}'
        }
        async with started(database, **settings) as api:
            async with api.with_key(issuer.token()) as client:
                assert (await client.get("/v1/tasks")).status_code == 401
            assert any("another issuer" in line for line in api.said)
