import subprocess
import sys
from pathlib import Path

import pytest

from mainspring.config import entries, load, masked
from mainspring.config.redis_urls import parse_redis_url
from mainspring.domain.errors import InvalidConfiguration

USED = {"MAINSPRING_READY_QUEUE": "redis"}


@pytest.mark.parametrize(
    "url",
    [
        "redis://localhost",
        "redis://user:password@redis-1:6379/0",
        "rediss://:password@[::1]:6380/3",
        "unix:///run/redis.sock",
        "redis+cluster://redis-1,redis-2:6380",
        "rediss+cluster://user:password@[2001:db8::1]:6379,redis-2/0",
        "redis+sentinel://redis-1:26379,redis-2/main",
        "rediss+sentinel://:password@redis-1/main.v1/2",
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
        "redis://redis-1,redis-2",
        "redis+cluster://redis-1/1",
        "redis+cluster://redis-1,,redis-2",
        "redis+cluster://",
        "redis+sentinel://redis-1",
        "redis+sentinel://redis-1/main/name",
        "redis+sentinel://redis-1/the main one/0",
        "redis+sentinel://redis-1:0/main",
        "redis+other://redis-1",
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


def test_where_a_url_leads() -> None:
    cluster = parse_redis_url("rediss+cluster://u:p%40@[2001:db8::1],redis-2:1")
    assert cluster is not None
    assert (cluster.kind, cluster.hosts) == ("cluster", (("2001:db8::1", 6379), ("redis-2", 1)))
    assert cluster.url_of("2001:db8::2", 6380) == "rediss://u:p%40@[2001:db8::2]:6380/0"
    watched = parse_redis_url("redis+sentinel://u:p@redis-1,redis-2:1/main/3")
    assert watched is not None
    assert (watched.kind, watched.service) == ("sentinel", "main")
    assert watched.sentinel_urls() == ["redis://redis-1:26379/0", "redis://redis-2:1/0"]
    assert watched.sentinel_urls("s%2F")[0] == "redis://:s%2F@redis-1:26379/0"
    assert watched.url_of("redis-9", 6379) == "redis://u:p@redis-9:6379/3"


def test_who_does_not_use_redis_does_not_load_its_driver() -> None:
    script = "import sys, mainspring.wiring.roles; print('redis' in sys.modules)"
    said = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True, timeout=30
    )
    assert said.stdout == "False\n"
