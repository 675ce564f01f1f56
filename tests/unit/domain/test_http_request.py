"""The payload of an http task, what an answer means, and signatures."""

from datetime import UTC, datetime
from typing import Any

import pytest

from mainspring import verify_signature
from mainspring.domain.errors import InvalidValue
from mainspring.domain.http_request import (
    Facts,
    filled,
    is_retryable,
    is_success,
    parse_request,
    retry_after,
)
from mainspring.domain.signatures import is_signed, sign
from mainspring.domain.webhooks import Event, Webhook, check_webhook

URL = "https://example.com/hook"
NOW = datetime(2026, 5, 12, 15, 0, tzinfo=UTC)


def test_a_url_is_enough() -> None:
    request = parse_request({"url": URL})
    assert (request.method, request.body, request.success) == ("GET", None, ("2xx",))
    assert (request.timeout, request.redirects, request.keep_body) == (10.0, 0, False)


def test_a_body_is_text_or_json_and_says_so() -> None:
    text = parse_request({"url": URL, "body": "hello"})
    assert (text.method, text.body) == ("POST", "hello")
    assert text.headers == (("Content-Type", "text/plain; charset=utf-8"),)
    value = parse_request({"url": URL, "method": "put", "body": {"a": [1, None]}})
    assert (value.method, value.body) == ("PUT", '{"a":[1,null]}')
    assert value.headers == (("Content-Type", "application/json"),)
    own = parse_request({"url": URL, "body": "<a/>", "headers": {"content-type": "text/xml"}})
    assert own.headers == (("content-type", "text/xml"),)


@pytest.mark.parametrize(
    ("change", "field"),
    [
        ({"url": None}, "url"),
        ({"url": "file:///etc/passwd"}, "url"),
        ({"method": "TRACE"}, "method"),
        ({"method": "CONNECT"}, "method"),
        ({"method": 1}, "method"),
        ({"headers": ["a"]}, "headers"),
        ({"headers": {"Host": "internal"}}, "headers.Host"),
        ({"headers": {"hOST": "internal"}}, "headers.hOST"),
        ({"headers": {"Transfer-Encoding": "chunked"}}, "headers.Transfer-Encoding"),
        ({"headers": {"Content-Length": "3"}}, "headers.Content-Length"),
        ({"headers": {"Connection": "close"}}, "headers.Connection"),
        ({"headers": {"Proxy-Authorization": "x"}}, "headers.Proxy-Authorization"),
        ({"headers": {"Accept-Encoding": "gzip"}}, "headers.Accept-Encoding"),
        ({"headers": {"Mainspring-Signature": "x"}}, "headers.Mainspring-Signature"),
        ({"headers": {"X": "a\r\nHost: b"}}, "headers.X"),
        ({"headers": {"X": "a\n"}}, "headers.X"),
        ({"headers": {"X": "\u00e9"}}, "headers.X"),
        ({"headers": {"X": 1}}, "headers.X"),
        ({"headers": {"X Y": "a"}}, "headers.X Y"),
        ({"headers": {"": "a"}}, "headers."),
        ({"headers": {"X": "a", "x": "b"}}, "headers"),
        ({"headers": {"X": "a" * 9000}}, "headers"),
        ({"headers": {f"X{n}": "a" for n in range(51)}}, "headers"),
        ({"success": []}, "success"),
        ({"success": ["3x"]}, "success"),
        ({"success": [True]}, "success"),
        ({"success": [100]}, "success"),
        ({"timeout": 0}, "timeout"),
        ({"timeout": 3601}, "timeout"),
        ({"max_response_bytes": 65537}, "max_response_bytes"),
        ({"keep_body": 1}, "keep_body"),
        ({"redirects": 6}, "redirects"),
        ({"sign": "a b"}, "sign"),
        ({"verify": False}, "verify"),
    ],
    ids=ascii,
)
def test_what_is_wrong_is_named(change: dict[str, Any], field: str) -> None:
    with pytest.raises(InvalidValue) as refused:
        parse_request({"url": URL, **change})
    assert refused.value.field == f"payload.{field}"
    assert refused.value.message.startswith(f"payload.{field}")
    assert "\n" not in refused.value.message


def test_placeholders_are_text_and_nothing_else() -> None:
    facts = Facts("ID", 3, "AT", "")
    body = "{{task_id}} {{attempt}} {{scheduled_at}} [{{nominal_at}}] {{ task_id }} {{7*7}} {{x}}"
    assert filled(body, facts) == "ID 3 AT [] {{ task_id }} {{7*7}} {{x}}"


def test_what_an_answer_means() -> None:
    assert is_success(204, ("2xx",))
    assert is_success(404, (200, 404))
    assert not is_success(301, ("2xx", 302))
    again = {status for status in range(300, 600) if is_retryable(status)}
    assert again == {408, 425, 429, *range(500, 600)}


@pytest.mark.parametrize(
    ("value", "seconds"),
    [
        (None, None),
        ("0", 0.0),
        ("120", 120.0),
        ("99999", 3600.0),
        ("9" * 5000, 3600.0),
        ("-1", None),
        ("soon", None),
        ("\u0663", None),
        ("Tue, 12 May 2026 15:01:30 GMT", 90.0),
        ("Tue, 12 May 2026 14:00:00 GMT", 0.0),
        ("Tue, 12 May 2099 14:00:00 GMT", 3600.0),
        ("Tue, 99 May 2026 14:00:00 GMT", None),
    ],
)
def test_when_a_server_wants_to_be_asked_again(value: str | None, seconds: float | None) -> None:
    assert retry_after(value, NOW) == seconds


def test_a_signature_is_of_the_body_the_time_and_the_secret() -> None:
    header = sign("s3cret", 1000, b"body")
    assert header.startswith("t=1000,v1=")
    assert is_signed(b"body", header, ["other", "s3cret"], now=1299)
    for body, secrets, now in (
        (b"bodY", ["s3cret"], 1000),
        (b"body", ["other"], 1000),
        (b"body", [], 1000),
        (b"body", ["s3cret"], 1301),
        (b"body", ["s3cret"], 699),
    ):
        assert not is_signed(body, header, secrets, now=now)
    for wrong in ("", "t=1000", "v1=00", header[:-1], header + "0", "t=1_0,v1=" + "0" * 64):
        assert not is_signed(b"body", wrong, ["s3cret"], now=1000)
    both = f"{header},{sign('next', 1000, b'body').partition(',')[2]}"
    assert is_signed(b"body", both, ["next"], now=1000)


def test_receivers_have_a_function_for_it() -> None:
    header = sign("s3cret", 1000, b"body")
    assert verify_signature(b"body", header, "s3cret", now=1000)
    assert verify_signature("body", header, ["old", "s3cret"], now=1000)
    assert not verify_signature(b"body", header, "s3cret")
    assert not verify_signature(b"body", None, "s3cret", now=1000)


def test_a_webhook_is_a_url_or_an_object() -> None:
    assert check_webhook(URL) == Webhook(url=URL)
    full = check_webhook({"url": URL, "events": ["failed", "completed"], "sign": "acme"})
    assert full.events == (Event.COMPLETED, Event.FAILED)
    assert check_webhook(full) == full


@pytest.mark.parametrize(
    ("value", "field"),
    [
        ("file:///x", "webhook"),
        (7, "webhook"),
        ({}, "webhook.url"),
        ({"url": "http://127.1/"}, "webhook.url"),
        ({"url": URL, "events": []}, "webhook.events"),
        ({"url": URL, "events": ["started"]}, "webhook.events"),
        ({"url": URL, "events": "failed"}, "webhook.events"),
        ({"url": URL, "sign": ""}, "webhook.sign"),
        ({"url": URL, "secret": "x"}, "webhook.secret"),
    ],
    ids=ascii,
)
def test_a_webhook_that_is_none_is_refused(value: Any, field: str) -> None:
    with pytest.raises(InvalidValue) as refused:
        check_webhook(value)
    assert refused.value.field == field
