"""Connections on which others may read along are told apart from those on which nobody can."""

import dataclasses

import pytest

from mainspring.config import Settings
from mainspring.wiring.exposure import plain_connections


@pytest.mark.parametrize(
    ("url", "is_plain"),
    [
        ("", False),
        ("postgresql://user@/name?host=/run/postgresql", False),
        ("postgresql://user@localhost/name", False),
        ("postgresql://user@127.0.0.1:5432/name", False),
        ("postgresql://user@[::1]/name", False),
        ("postgresql://user@db.example.com/name?sslmode=verify-full", False),
        ("postgresql://user@db.example.com/name?sslmode=require", False),
        ("postgresql://user@db.example.com/name?sslmode=prefer", True),
        ("postgresql://user@db.example.com/name", True),
        ("postgresql://user@10.0.0.1/name", True),
        ("postgresql://user@/name?host=10.0.0.1", True),
    ],
)
def test_the_way_to_the_database(url: str, is_plain: bool) -> None:
    settings = dataclasses.replace(Settings(), database_url=url)
    assert bool(list(plain_connections(settings))) is is_plain


@pytest.mark.parametrize(
    ("url", "is_plain"),
    [
        ("http://127.0.0.1:2379,http://localhost:2380", False),
        ("https://a.example.com:2379,https://b.example.com:2379", False),
        ("https://a.example.com:2379,http://b.example.com:2379", True),
    ],
)
def test_the_way_to_etcd(url: str, is_plain: bool) -> None:
    settings = dataclasses.replace(Settings(), coordination="etcd", etcd_url=url)
    assert bool(list(plain_connections(settings))) is is_plain


@pytest.mark.parametrize(
    ("url", "is_plain"),
    [
        ("redis://127.0.0.1:6379", False),
        ("unix:///run/redis.sock", False),
        ("rediss://a.example.com:6379", False),
        ("redis://a.example.com:6379", True),
        ("redis+cluster://127.0.0.1:6379,a.example.com", True),
        ("redis+sentinel://127.0.0.1,localhost/main", False),
        ("rediss+sentinel://a.example.com/main", False),
    ],
)
def test_the_way_to_redis(url: str, is_plain: bool) -> None:
    settings = dataclasses.replace(Settings(), ready_queue="redis", redis_url=url)
    assert bool(list(plain_connections(settings))) is is_plain
