"""The keys of an issuer: rotated, withheld, and served by somebody else."""

import json
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from api.issuer import DISCOVERY, Issuer, served
from mainspring.adapters.oidc import sources
from mainspring.adapters.oidc.keys import (
    AGAIN_SECONDS,
    FIRST_AGAIN_SECONDS,
    FRESH_SECONDS,
    STALE_SECONDS,
    IssuerKeys,
)
from mainspring.adapters.oidc.sources import KeyFile, KeyServer, KeysUnavailable
from mainspring.api.routes import PATIENCE_SECONDS
from manual_clock import ManualClock

ALGORITHMS = ("RS256", "ES256", "EdDSA")
KEYS = "/keys"


@pytest.fixture
async def issuer() -> AsyncIterator[Issuer]:
    async with served(Issuer()) as issuer:
        yield issuer


def keys_of(issuer: Issuer, clock: ManualClock) -> IssuerKeys:
    return IssuerKeys(KeyServer(issuer.url), ALGORITHMS, clock)


async def test_a_new_key_is_found_and_an_invented_one_asks_once_a_minute(issuer: Issuer) -> None:
    clock = ManualClock()
    keys = keys_of(issuer, clock)
    assert await keys.find(issuer.names["RS256"], "RS256")
    issuer.rotate("RS256")
    clock.advance(AGAIN_SECONDS)
    assert await keys.find(issuer.names["RS256"], "RS256")
    assert await keys.find("RS256-1", "RS256") is None, "the old one is gone"
    asked = issuer.asked.count(KEYS)
    for number in range(50):
        assert await keys.find(f"invented-{number}", "RS256") is None
    assert issuer.asked.count(KEYS) == asked
    clock.advance(AGAIN_SECONDS)
    assert await keys.find("invented", "RS256") is None
    assert issuer.asked.count(KEYS) == asked + 1


async def test_keys_outlive_an_outage_of_an_hour_and_no_longer(issuer: Issuer) -> None:
    clock = ManualClock()
    keys = keys_of(issuer, clock)
    name = issuer.names["ES256"]
    assert await keys.find(name, "ES256")
    issuer.is_down = True
    clock.advance(STALE_SECONDS - 1)
    assert await keys.find(name, "ES256"), "used while the issuer is down"
    await keys.renew()
    assert keys.problem
    clock.advance(AGAIN_SECONDS)
    assert await keys.find(name, "ES256") is None
    issuer.is_down = False
    clock.advance(AGAIN_SECONDS)
    assert await keys.find(name, "ES256")
    assert not keys.problem


async def test_keys_are_renewed_while_the_old_ones_are_used(issuer: Issuer) -> None:
    clock = ManualClock()
    keys = keys_of(issuer, clock)
    assert await keys.find("RS256-1", "RS256")
    issuer.rotate("RS256")
    clock.advance(FRESH_SECONDS + 1)
    assert await keys.find("RS256-1", "RS256"), "nobody waits for the issuer"
    await keys.renew()
    assert await keys.find("RS256-1", "RS256") is None, "a key that was given up is forgotten"


async def test_without_any_keys_the_issuer_is_asked_more_often(issuer: Issuer) -> None:
    clock = ManualClock()
    keys = keys_of(issuer, clock)
    issuer.is_down = True
    assert await keys.find("RS256-1", "RS256") is None
    issuer.is_down = False
    assert await keys.find("RS256-1", "RS256") is None
    clock.advance(FIRST_AGAIN_SECONDS)
    assert await keys.find("RS256-1", "RS256")


async def test_a_key_is_only_for_what_it_fits(issuer: Issuer) -> None:
    document = issuer.key_set()
    rsa, ec, okp = document["keys"]
    others = [
        {"kty": "oct", "kid": "secret", "k": "AAAA", "alg": "HS256"},
        {**rsa, "kid": "for encryption", "use": "enc"},
        {**rsa, "kid": "for wrapping", "key_ops": ["wrapKey"]},
        {**rsa, "kid": "another algorithm", "alg": "RS512"},
        {**rsa, "kid": "given away", "d": rsa["n"]},
        {**rsa, "kid": "broken", "n": "?"},
        {**rsa, "kid": "short", "n": "t" * 171},
        {**ec, "kid": "another curve", "crv": "P-384"},
        {**rsa, "kid": 7},
        "no key",
    ]
    issuer.documents[KEYS] = json.dumps({"keys": [*others, rsa, ec, okp]}).encode()
    keys = keys_of(issuer, ManualClock())
    for algorithm in ALGORITHMS:
        for name in [entry["kid"] for entry in others if isinstance(entry, dict)]:
            assert await keys.find(name, algorithm) is None, name
        for other in ALGORITHMS:
            found = await keys.find(issuer.names[other], algorithm)
            assert (found is not None) is (other == algorithm)


@pytest.mark.parametrize(
    ("path", "document", "why"),
    [
        (DISCOVERY, b'{"issuer":"https://evil.example","jwks_uri":"{url}/keys"}', "another issuer"),
        (DISCOVERY, b'{"issuer":"{url}","jwks_uri":"http://127.0.0.2/keys"}', "own host"),
        (DISCOVERY, b'{"issuer":"{url}","jwks_uri":"file:///etc/passwd"}', "own host"),
        (DISCOVERY, b'{"issuer":"{url}"}', "own host"),
        (DISCOVERY, b"Location: /elsewhere", "answered 302"),
        (KEYS, b"Location: http://169.254.169.254/latest", "answered 302"),
        (KEYS, b"[]", "no JSON object"),
        (KEYS, b"[" * 10_000, "no JSON object"),
        (KEYS, b'{"keys":[]}', "no key that fits"),
        (KEYS, b'{"keys":7}', "no key that fits"),
        (KEYS, b" " * (sources.ANSWER_BYTES_MAX + 1), "more than"),
    ],
)
async def test_an_answer_that_is_not_right_gives_no_keys(
    issuer: Issuer, path: str, document: bytes, why: str
) -> None:
    issuer.documents[path] = document.replace(b"{url}", issuer.url.encode())
    keys = keys_of(issuer, ManualClock())
    assert await keys.find("RS256-1", "RS256") is None
    assert why in keys.problem
    assert "/elsewhere" not in issuer.asked


async def test_a_file_of_keys(tmp_path: Path) -> None:
    path = tmp_path / "keys.json"
    with pytest.raises(KeysUnavailable, match="No such file"):
        await KeyFile(path).read()
    path.write_text(json.dumps(Issuer().key_set()))
    assert len((await KeyFile(path).read())["keys"]) == 3


async def test_an_issuer_that_does_not_answer_is_given_up(
    issuer: Issuer, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert sources.ANSWER_SECONDS < PATIENCE_SECONDS, "a request that waits is still answered"
    monkeypatch.setattr(sources, "ANSWER_SECONDS", 0.1)
    issuer.is_silent = True
    keys = keys_of(issuer, ManualClock())
    assert await keys.find("RS256-1", "RS256") is None
    assert "no answer within" in keys.problem or "Timeout" in keys.problem
