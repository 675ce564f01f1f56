"""The settings that say which URLs tasks may call, and how the calls are signed."""

import dataclasses
from collections.abc import Iterator
from typing import Annotated, Final

from mainspring.config.facts import Facts
from mainspring.domain.errors import InvalidValue
from mainspring.domain.targets import PORTS, Allowed, TargetRules, parse_allowed
from mainspring.domain.values import check_name, check_whole

SECRET_LENGTH_MIN: Final = 16

_PORT_MAX: Final = 65535
_DIGITS_MAX: Final = 5
_NAMESPACE_MARK: Final = "~"


@dataclasses.dataclass(frozen=True, kw_only=True, repr=False)
class CallSettings:
    """Part of `Settings`."""

    http_tasks: Annotated[
        bool,
        Facts(
            "Whether workers run tasks of the built-in type `http`, and deliver webhooks. They "
            "call public addresses only"
        ),
    ] = True
    http_allow: Annotated[
        str,
        Facts(
            "Internal targets that `http` tasks and webhooks of every namespace may call all the "
            "same, separated by commas: host names, addresses and networks, each with a port if "
            "wished, such as `billing.internal, 10.1.0.0/16, 127.0.0.1:9000`"
        ),
    ] = ""
    http_ports: Annotated[
        str, Facts("Ports that `http` tasks and webhooks may call, separated by commas")
    ] = ",".join(map(str, PORTS))
    signing_secrets: Annotated[
        str,
        Facts(
            "Secrets that sign `http` tasks and webhooks, separated by commas: `NAME=SECRET` with "
            f"{SECRET_LENGTH_MIN} characters or more, or `NAMESPACE~NAME=SECRET`",
            secret=True,
        ),
    ] = ""


def target_rules(settings: CallSettings) -> TargetRules:
    """Return where requests may go, or raise `InvalidValue`."""
    return TargetRules(tuple(_ports(settings.http_ports)), tuple(_allowed(settings.http_allow)))


def signing_secrets(settings: CallSettings) -> dict[str, str]:
    """Return the secrets by name, or raise `InvalidValue`, in which no secret is shown."""
    secrets: dict[str, str] = {}
    for part in _parts(settings.signing_secrets):
        name, equals, secret = part.partition("=")
        namespace, mark, plain = name.rpartition(_NAMESPACE_MARK)
        if not equals or len(secret) < SECRET_LENGTH_MIN or (mark and not namespace):
            message = (
                f"signing_secrets has an entry that is not NAME=SECRET with {SECRET_LENGTH_MIN} "
                "characters or more"
            )
            raise InvalidValue(message, field="signing_secrets")
        check_name(plain, "signing_secrets has a name that")
        secrets[name] = secret
    return secrets


def call_problems(settings: CallSettings) -> Iterator[str]:
    """Yield a sentence for each of these settings that is wrong."""
    for read in (target_rules, signing_secrets):
        try:
            read(settings)
        except InvalidValue as error:
            yield error.message


def _allowed(text: str) -> Iterator[Allowed]:
    for part in _parts(text):
        yield parse_allowed(part)


def _ports(text: str) -> Iterator[int]:
    for part in _parts(text):
        number = (
            int(part) if part.isascii() and part.isdecimal() and len(part) <= _DIGITS_MAX else part
        )
        yield check_whole(number, "a port of http_ports", 1, _PORT_MAX)


def _parts(text: str) -> list[str]:
    return [part for part in (part.strip() for part in text.split(",")) if part]
