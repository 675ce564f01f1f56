import subprocess
import sys
from pathlib import Path

import pytest

from mainspring.config import entries, load, masked
from mainspring.domain.errors import InvalidConfiguration

USED = {"MAINSPRING_READY_QUEUE": "redis"}


@pytest.mark.parametrize(
    "url",
    [
        "redis://localhost",
        "redis://user:password@redis-1:6379/0",
        "rediss://:password@[::1]:6380/3",
        "unix:///run/redis.sock",
    ],
)
def test_urls_of_redis(url: str, tmp_path: Path) -> None:
    settings = load(environ={**USED, "MAINSPRING_REDIS_URL": url}, directory=tmp_path)
    assert settings.redis_url == url


@pytest.mark.parametrize(
    "url",
    [
        "",
        "redis-1:6379",
        "http://redis-1",
        "redis://redis-1:99999",
        "redis://redis-1/name",
        "redis://redis-1?socket_timeout=60",
    ],
)
def test_what_is_no_url_of_redis(url: str, tmp_path: Path) -> None:
    with pytest.raises(InvalidConfiguration, match="redis_url"):
        load(environ={**USED, "MAINSPRING_REDIS_URL": url}, directory=tmp_path)


@pytest.mark.parametrize("prefix", ["", "a b", "{a}"])
def test_a_prefix_that_would_break_the_keys(prefix: str, tmp_path: Path) -> None:
    with pytest.raises(InvalidConfiguration, match="redis_prefix"):
        load(environ={"MAINSPRING_REDIS_PREFIX": prefix}, directory=tmp_path)


def test_the_password_is_not_shown(tmp_path: Path) -> None:
    url = "redis://user:hidden-word@redis-1:6379/0"
    settings = load(environ={**USED, "MAINSPRING_REDIS_URL": url}, directory=tmp_path)
    (entry,) = [entry for entry in entries() if entry.name == "redis_url"]
    assert masked(settings, entry) == "redis://user:***@redis-1:6379/0"
    assert "hidden-word" not in repr(settings)


def test_who_does_not_use_redis_does_not_load_its_driver() -> None:
    script = "import sys, mainspring.wiring.roles; print('redis' in sys.modules)"
    said = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True, timeout=30
    )
    assert said.stdout == "False\n"
