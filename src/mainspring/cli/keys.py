"""`mainspring keys` and `mainspring namespaces`: who may use the API, and how much of it."""

import re
import secrets
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Final

import click

from mainspring.adapters.system import SystemClock
from mainspring.cli.options import database_settings_of, json_option, store_options
from mainspring.cli.output import note, print_json, print_table, when
from mainspring.cli.stores import with_store
from mainspring.core.access import ID_BYTES, SECRET_BYTES, new_key
from mainspring.domain.errors import InvalidValue, NotFound
from mainspring.domain.namespaces import DEFAULT_NAMESPACE, check_namespace
from mainspring.domain.values import check_name, check_whole, shown
from mainspring.ports.access import KeyRecord, Namespace, Scope

_QUOTA_MAX = 10**12
_CERTIFICATE: Final = re.compile(r"[!-~]{1,255}", re.ASCII)


@click.group()
def keys() -> None:
    """Keys of the API."""


@keys.command()
@click.argument("name")
@click.option(
    "--scope",
    "scopes",
    required=True,
    help="What it may be used for, separated by commas: submit,read,work,admin.",
)
@click.option("--namespace", default=DEFAULT_NAMESPACE, help="Tenant it belongs to.")
@click.option("--queues", help="Only for these queues: a,b.")
@click.option(
    "--certificate",
    metavar="NAME",
    help="Proved by a client certificate of this name (DNS or URI) instead of a secret.",
)
@click.option("--days", type=float, help="Expires after so many days (default: never).")
@json_option
@store_options
def create(
    name: str,
    *,
    scopes: str,
    namespace: str,
    queues: str | None,
    certificate: str | None,
    days: float | None,
    as_json: bool,
    database_url: str | None,
    data_dir: Path | None,
) -> None:
    """Make a key and print it. It is shown this once; only its digest is kept.

    With --certificate there is no secret, and the id of the key is printed.
    """
    record_queues = None if queues is None else tuple(_names(queues, "queues"))
    key, record = new_key(
        check_name(name, "name"),
        secrets.token_bytes(ID_BYTES + SECRET_BYTES),
        namespace=check_namespace(namespace),
        scopes=_scopes(scopes),
        queues=record_queues,
        expires_at=_expiry(days),
        certificate=None if certificate is None else _certificate(certificate),
    )
    settings = database_settings_of(database_url=database_url, data_dir=data_dir)
    with_store(settings, lambda store: store.add_key(record))
    if as_json:
        print_json(_shown(record) | ({} if certificate else {"key": key}))
        return
    if certificate is None:
        note("this key is shown once; keep it safe")
    click.echo(key)


@keys.command("list")
@json_option
@store_options
def list_keys(*, as_json: bool, database_url: str | None, data_dir: Path | None) -> None:
    """List keys, without what could be used as one."""
    settings = database_settings_of(database_url=database_url, data_dir=data_dir)
    found = with_store(settings, lambda store: store.keys())
    if as_json:
        for key in found:
            print_json(_shown(key))
        return
    print_table(
        ("ID", "NAME", "NAMESPACE", "SCOPES", "QUEUES", "STATE", "EXPIRES"),
        (
            (
                key.key_id,
                key.name,
                key.namespace,
                ",".join(key.scopes),
                "all" if key.queues is None else ",".join(key.queues),
                _state(key),
                when(key.expires_at),
            )
            for key in found
        ),
    )


@keys.command()
@click.argument("key_id", metavar="ID")
@store_options
def revoke(key_id: str, *, database_url: str | None, data_dir: Path | None) -> None:
    """Make a key useless, within 5 seconds, open streams included."""
    settings = database_settings_of(database_url=database_url, data_dir=data_dir)
    if not with_store(settings, lambda store: store.revoke_key(key_id)):
        raise NotFound(f"there is no key {shown(key_id)}; see `mainspring keys list`")
    click.echo(f"{key_id} is revoked")


@click.group()
def namespaces() -> None:
    """Tenants, and how much each may use."""


@namespaces.command("list")
@json_option
@store_options
def list_namespaces(*, as_json: bool, database_url: str | None, data_dir: Path | None) -> None:
    """List namespaces and their quotas."""
    settings = database_settings_of(database_url=database_url, data_dir=data_dir)
    found = with_store(settings, lambda store: store.namespaces())
    if as_json:
        for namespace in found:
            print_json(namespace)
        return
    print_table(
        ("NAMESPACE", "PENDING TASKS", "SCHEDULES", "TASKS A SECOND"),
        ((n.name, *map(_bound, (n.pending_max, n.schedules_max, n.submit_rate))) for n in found),
    )


@namespaces.command("set")
@click.argument("name")
@click.option("--pending", type=int, help="Tasks that may wait or run at a time.")
@click.option("--schedules", type=int, help="Schedules it may have.")
@click.option("--rate", type=float, help="Tasks it may submit a second, at each API process.")
@store_options
def set_namespace(
    name: str,
    *,
    pending: int | None,
    schedules: int | None,
    rate: float | None,
    database_url: str | None,
    data_dir: Path | None,
) -> None:
    """Create a namespace or replace its quotas; what is left out is without bound."""
    for value, field in ((pending, "pending"), (schedules, "schedules")):
        if value is not None:
            check_whole(value, field, 0, _QUOTA_MAX)
    if rate is not None and not 0 < rate <= _QUOTA_MAX:
        raise InvalidValue(f"rate is {rate}; give tasks a second, above 0", field="rate")
    namespace = Namespace(
        name=check_namespace(name, "name"),
        pending_max=pending,
        schedules_max=schedules,
        submit_rate=rate,
    )
    settings = database_settings_of(database_url=database_url, data_dir=data_dir)
    with_store(settings, lambda store: store.set_namespace(namespace))
    click.echo(f"{name} is set")


def _names(text: str, field: str) -> list[str]:
    return [check_name(part.strip(), field) for part in text.split(",")]


def _scopes(text: str) -> tuple[Scope, ...]:
    wanted = {part.strip() for part in text.split(",")}
    unknown = wanted - set(Scope)
    if unknown:
        raise InvalidValue(
            f"scope has {shown(min(unknown))}; choose from {', '.join(Scope)}", field="scope"
        )
    return tuple(scope for scope in Scope if scope in wanted)


def _certificate(name: str) -> str:
    if _CERTIFICATE.fullmatch(name):
        return name
    raise InvalidValue(
        f"certificate is {shown(name)}; give a name as it stands in the certificate, such as "
        "worker-1.example.com or spiffe://example.com/worker",
        field="certificate",
    )


def _expiry(days: float | None) -> datetime | None:
    if days is None:
        return None
    if not 0 < days <= 36500:  # noqa: PLR2004 - a century
        raise InvalidValue(f"days is {days}; give a number above 0 and up to 36500", field="days")
    return SystemClock().now().astimezone(UTC) + timedelta(days=days)


def _state(key: KeyRecord) -> str:
    if key.revoked_at is not None:
        return "revoked"
    return "valid" if key.is_valid else "expired"


def _bound(value: float | None) -> str:
    return "no bound" if value is None else f"{value:,.10g}"


def _shown(key: KeyRecord) -> dict[str, object]:
    return {
        "id": key.key_id,
        "name": key.name,
        "namespace": key.namespace,
        "scopes": key.scopes,
        "queues": key.queues,
        "certificate": key.certificate,
        "state": _state(key),
        "created_at": key.created_at,
        "expires_at": key.expires_at,
    }
