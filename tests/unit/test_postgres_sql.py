"""What the SQL files say about themselves, held against what they do."""

import re
from importlib.resources import files

import pytest

from mainspring.adapters.postgres.failures import server_of, translated
from mainspring.adapters.postgres.queries import QUERIES, Query
from mainspring.domain import errors
from mainspring.domain.status import TRANSITIONS, Transition


def every(query: Query) -> str:
    return query.name


@pytest.mark.parametrize("query", [*QUERIES], ids=every)
def test_every_statement_says_why(query: Query) -> None:
    assert re.search(r"[a-z]{3}.*[.:]", query.why, re.DOTALL), query.name


@pytest.mark.parametrize("query", [*QUERIES], ids=every)
def test_every_change_of_status_is_one_of_the_table_of_transitions(query: Query) -> None:
    # What is submitted is pending by the default of the table.
    made = query.transitions - {Transition.SUBMIT}
    targets = {TRANSITIONS[transition].target for transition in made} - {None}
    for target in targets:
        # Dead letters have a table instead of a status.
        place = "mainspring.dead_letters (" if target == "failed" else f"'{target}'"
        assert place in query.sql, (query.name, target)
    moves = re.search(r"INSERT INTO mainspring\.(tasks|task_history|dead_letters)\b", query.sql)
    sets = re.search(r"UPDATE mainspring\.tasks t SET((?!FROM|WHERE)[^;])*\bstatus = ", query.sql)
    if moves or sets:
        assert query.transitions, f"{query.name} changes a status and names no transition"


def test_every_transition_is_made_somewhere() -> None:
    made = {transition for query in QUERIES for transition in query.transitions}
    # Submitting is a function of the database.
    assert made | {Transition.SUBMIT} == set(Transition)


@pytest.mark.parametrize("query", [*QUERIES], ids=every)
def test_every_end_of_a_task_is_told_to_its_webhook(query: Query) -> None:
    ends = {"completed", "failed", "cancelled", "discarded"}
    targets = {TRANSITIONS[transition].target for transition in query.transitions}
    if targets & ends:
        assert "delivered AS (" in query.sql, f"{query.name} lacks {{{{webhooks}}}}"


def test_every_write_of_an_owner_compares_the_token() -> None:
    for name in ("complete", "retry", "fail", "end_cancelled", "release", "heartbeat", "progress"):
        assert re.search(r"t\.fencing_token = (\w+\.token|\$2)", QUERIES[name].sql), name
        assert "t.status = 'running'" in QUERIES[name].sql, name


def test_reads_are_not_taken_for_writes() -> None:
    reads = {query.name for query in QUERIES if not query.writes}
    assert {"get", "page", "statuses", "queues", "watch", "workers"} <= reads
    assert not reads & {"submit", "claim", "complete", "heartbeat", "pause", "announce"}


def test_statements_name_the_schema_of_every_table() -> None:
    tables = "tasks|dead_letters|task_history|queues|workers|idempotency|webhooks"
    for query in QUERIES:
        assert not re.search(rf"\b(FROM|JOIN|INTO|UPDATE) ({tables})\b(?! AS)", query.sql), (
            query.name
        )


def test_migrations_are_numbered_without_a_gap() -> None:
    folder = files("mainspring.adapters.postgres") / "migrations"
    names = sorted(file.name for file in folder.iterdir() if file.name.endswith(".sql"))
    assert [int(name[:4]) for name in names] == [*range(1, len(names) + 1)]


class DriverError(Exception):
    def __init__(self, code: str) -> None:
        super().__init__("no")
        self.sqlstate = code


@pytest.mark.parametrize(
    ("code", "kind"),
    [
        ("25006", errors.StoreReadOnly),
        ("53100", errors.StoreFull),
        ("53300", errors.StoreUnavailable),
        ("57P03", errors.StoreUnavailable),
        ("57014", errors.StoreBusy),
        ("40P01", errors.StoreBusy),
        ("55P03", errors.StoreBusy),
        ("40001", errors.StoreBusy),
        ("42P01", errors.MigrationNeeded),
        ("3F000", errors.MigrationNeeded),
        ("3D000", errors.SetupError),
        ("28P01", errors.SetupError),
        ("23514", errors.InvalidValue),
        ("XX000", errors.StoreUnavailable),
    ],
)
def test_codes_of_the_server_in_the_words_of_the_domain(
    code: str, kind: type[errors.MainspringError]
) -> None:
    assert type(translated(DriverError(code), wrote=True)) is kind


def test_a_lost_connection_leaves_a_write_unknown_and_a_read_undone() -> None:
    for error in (ConnectionResetError("reset"), TimeoutError(), DriverError("57P01")):
        assert type(translated(error, wrote=True)) is errors.OutcomeUnknown
        assert type(translated(error, wrote=False)) is errors.StoreUnavailable


def test_an_outage_names_the_server_and_no_password() -> None:
    for dsn, server in (
        ("postgresql://user:s3cr3t@host:1/db", "host:1"),
        ("postgresql:///db?host=/run/pg", "/run/pg"),
    ):
        error = ConnectionError(f"no answer from {dsn}")
        said = translated(error, wrote=False, server=server_of(dsn)).message
        assert said.startswith(f"the task store at {server} cannot be reached")
        assert "s3cr3t" not in said
        said = translated(DriverError("28P01"), wrote=False, server=server_of(dsn)).message
        assert said.startswith(f"the task store at {server} refuses the user or password")
