"""The examples of `docs/guides/http.md` are accepted, and its receiver receives."""

import json
import re
import time
from pathlib import Path

from mainspring.config import Settings
from mainspring.config.calls import signing_secrets, target_rules
from mainspring.domain.http_request import FIELDS, parse_request
from mainspring.domain.signatures import sign
from mainspring.domain.webhooks import (
    DELIVERY_BACKOFF,
    DELIVERY_RETRIES,
    Ending,
    check_webhook,
)

PAGE = (Path(__file__).parents[2] / "docs" / "guides" / "http.md").read_text()


def blocks(language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", PAGE, re.DOTALL)


def test_the_payloads_are_accepted() -> None:
    payload, submission, body = map(json.loads, blocks("json"))
    assert parse_request(payload).success == ("2xx", 409)
    assert check_webhook(submission["webhook"]).sign == "main"
    assert tuple(body) == Ending.__struct_fields__


def test_every_field_is_on_the_page() -> None:
    table = re.findall(r"^\| `(\w+)` \|", PAGE, re.MULTILINE)
    assert set(table) == set(FIELDS)


def test_the_settings_are_accepted() -> None:
    values = dict(re.findall(r"export MAINSPRING_(\w+)='(.*)'", PAGE))
    settings = Settings(**{name.lower(): value for name, value in values.items()})
    assert len(target_rules(settings).allowed) == 3
    assert list(signing_secrets(settings)) == ["main"]


def test_how_long_deliveries_are_tried() -> None:
    waits = [DELIVERY_BACKOFF.delay(failures, 0.0) for failures in range(1, DELIVERY_RETRIES + 1)]
    assert (len(waits) + 1, round(sum(waits) / 3600)) == (12, 6)
    assert "twelve times in about\nsix hours" in PAGE


def test_the_receiver_knows_what_is_signed() -> None:
    (example,) = blocks("python")
    names: dict[str, object] = {}
    exec(compile(example, "http.md", "exec"), names)
    receive, secret = names["receive"], names["SECRET"]
    assert callable(receive)
    signed = {"Mainspring-Signature": sign(str(secret), int(time.time()), b"{}")}
    headers = {**signed, "Idempotency-Key": "1"}
    assert [receive(headers, b"{}"), receive(headers, b"{}"), receive(headers, b"{ }")] == [
        204,
        204,
        401,
    ]
    assert receive({}, b"{}") == 401
