"""`mainspring audit`: what was done through the API, by whom and from where."""

from pathlib import Path

import click
import msgspec

from mainspring.cli.inputs import parse_since
from mainspring.cli.options import database_settings_of, json_option, store_options
from mainspring.cli.output import print_json, print_table, when
from mainspring.cli.stores import with_store
from mainspring.domain.namespaces import check_namespace
from mainspring.domain.values import check_whole
from mainspring.ports.access import AuditFilter

_LIMIT_MAX = 10_000


@click.group()
def audit() -> None:
    """What was done through the API, by whom."""


@audit.command("list")
@click.option("--since", metavar="T", help="Done since a time, or so long ago: 2h.")
@click.option("--actor", help="Only what this key id, or `oidc:SUBJECT`, did.")
@click.option("--namespace", help="Only what was done in this one (default: all).")
@click.option("--limit", type=int, default=50, help="At most so many records (default: 50).")
@json_option
@store_options
def list_records(
    *,
    since: str | None,
    actor: str | None,
    namespace: str | None,
    limit: int,
    as_json: bool,
    database_url: str | None,
    data_dir: Path | None,
) -> None:
    """List records, newest first."""
    which = AuditFilter(
        namespace=None if namespace is None else check_namespace(namespace),
        actor=actor,
        since=None if since is None else parse_since(since, "since"),
    )
    check_whole(limit, "limit", 1, _LIMIT_MAX)
    settings = database_settings_of(database_url=database_url, data_dir=data_dir)
    found = with_store(settings, lambda store: store.audit(limit, which))
    if as_json:
        for at, record in found:
            print_json({"at": at, **msgspec.structs.asdict(record)})
        return
    print_table(
        ("AT", "ACTOR", "NAMESPACE", "ACTION", "COUNT", "FROM", "SUBJECT"),
        (
            (when(at), r.actor, r.namespace, r.action, r.count, r.address, r.subject)
            for at, r in found
        ),
    )
