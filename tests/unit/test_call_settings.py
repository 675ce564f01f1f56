"""Settings of http tasks: checked when they are read, and secrets never shown."""

import subprocess
import sys
from pathlib import Path

import pytest

from mainspring.config import Settings, load
from mainspring.config.calls import signing_secrets, target_rules
from mainspring.domain.errors import InvalidConfiguration
from mainspring.domain.targets import PORTS


def loaded(tmp_path: Path, **environment: str) -> Settings:
    given = {f"MAINSPRING_{name.upper()}": value for name, value in environment.items()}
    return load(environ=given, directory=tmp_path)


def test_what_they_say(tmp_path: Path) -> None:
    settings = loaded(
        tmp_path,
        http_allow=" billing.internal, 10.1.0.0/16:9000 ",
        http_ports="443,8443",
        signing_secrets="main=0123456789abcdef,acme~main=fedcba9876543210=",
    )
    rules = target_rules(settings)
    assert rules.ports == (443, 8443)
    assert [entry.port for entry in rules.allowed] == [None, 9000]
    assert signing_secrets(settings) == {
        "main": "0123456789abcdef",
        "acme~main": "fedcba9876543210=",
    }
    assert "0123456789abcdef" not in repr(settings)
    assert target_rules(Settings()).ports == PORTS


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("http_allow", "http://billing.internal/"),
        ("http_ports", "80,http"),
        ("http_ports", "0"),
        ("http_ports", "٨٠"),
        ("signing_secrets", "topsecret-topsecret"),
        ("signing_secrets", "main=topsecret"),
        ("signing_secrets", "~main=topsecret-topsecret"),
        ("signing_secrets", "a b=topsecret-topsecret"),
    ],
)
def test_what_is_wrong_is_said_at_the_start(tmp_path: Path, name: str, value: str) -> None:
    with pytest.raises(InvalidConfiguration) as refused:
        loaded(tmp_path, **{name: value})
    assert name in refused.value.message
    assert "topsecret" not in refused.value.message


def test_a_worker_loads_no_http_library_until_it_needs_one() -> None:
    script = (
        "import sys, mainspring.cli.runner, mainspring.cli.services; "
        "print(sorted({'httpx', 'httpcore', 'anyio', 'certifi'} & set(sys.modules)))"
    )
    result = subprocess.run([sys.executable, "-c", script], capture_output=True, check=True)
    assert result.stdout.decode().strip() == "[]"
