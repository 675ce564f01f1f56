import dataclasses
from pathlib import Path
from typing import Any

import pytest

from mainspring.config import (
    Settings,
    child_environment,
    load,
    unknown_variables,
    without_password,
)
from mainspring.domain.errors import InvalidConfiguration


def loaded(tmp_path: Path, environ: dict[str, str] | None = None, **overrides: Any) -> Settings:
    return load(overrides, environ=environ or {}, directory=tmp_path)


def test_defaults_are_the_declared_ones(tmp_path: Path) -> None:
    assert loaded(tmp_path) == Settings()


def test_each_source_wins_over_the_next(tmp_path: Path) -> None:
    (tmp_path / "mainspring.toml").write_text("processes = 1\nconcurrency = 2\nlog_level = 'error'")
    environ = {"MAINSPRING_PROCESSES": "3", "MAINSPRING_CONCURRENCY": "4"}
    settings = loaded(tmp_path, environ, processes=5)
    assert (settings.processes, settings.concurrency, settings.log_level) == (5, 4, "error")


def test_the_table_of_pyproject_is_read(tmp_path: Path) -> None:
    (tmp_path / "pyproject.toml").write_text("[tool.mainspring]\nqueues = ['mail', 'web']\n")
    assert loaded(tmp_path).queues == ("mail", "web")


def test_an_own_file_hides_pyproject(tmp_path: Path) -> None:
    (tmp_path / "pyproject.toml").write_text("[tool.mainspring]\nprocesses = 7\n")
    (tmp_path / "mainspring.toml").write_text("")
    assert loaded(tmp_path).processes == 0


def test_every_problem_is_reported_at_once(tmp_path: Path) -> None:
    (tmp_path / "mainspring.toml").write_text("prozesses = 1\nlog_format = 'xml'")
    environ = {"MAINSPRING_LEASE_SECONDS": "soon", "MAINSPRING_PROCESSES": "-1"}
    with pytest.raises(InvalidConfiguration) as caught:
        loaded(tmp_path, environ, concurrency=0)
    message = caught.value.message
    for part in (
        "prozesses in mainspring.toml; did you mean processes?",
        "log_format in mainspring.toml is 'xml'; choose from text, json",
        "MAINSPRING_LEASE_SECONDS is 'soon'; give a number of seconds from 1 to 3600",
        "MAINSPRING_PROCESSES is '-1'; give a whole number from 0 to 256",
        "--concurrency is 0; give a whole number from 1 to 10000",
    ):
        assert part in message


def test_a_heartbeat_must_fit_twice_into_a_lease(tmp_path: Path) -> None:
    with pytest.raises(InvalidConfiguration, match="at least twice in a lease"):
        loaded(tmp_path, {"MAINSPRING_LEASE_SECONDS": "30"})


@pytest.mark.parametrize(
    "value", ["nan", "inf", "1e999", "", "0x10", "9" * 5000, "1_0_0_0_0_0_0_0_0_0_0_0_0_0_0_0"]
)
def test_numbers_that_are_none_are_refused(tmp_path: Path, value: str) -> None:
    with pytest.raises(InvalidConfiguration, match="MAINSPRING_LEASE_SECONDS"):
        loaded(tmp_path, {"MAINSPRING_LEASE_SECONDS": value})
    with pytest.raises(InvalidConfiguration, match="MAINSPRING_PROCESSES"):
        loaded(tmp_path, {"MAINSPRING_PROCESSES": value})


@pytest.mark.parametrize(
    ("value", "answer"), [("true", True), ("1", True), ("Off", False), ("no", False)]
)
def test_switches(tmp_path: Path, value: str, answer: bool) -> None:
    assert loaded(tmp_path, {"MAINSPRING_DATABASE_POOLED": value}).database_pooled is answer


def test_a_switch_that_is_none_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InvalidConfiguration, match="'maybe'; give true or false"):
        loaded(tmp_path, {"MAINSPRING_DATABASE_POOLED": "maybe"})


def test_a_wrong_database_url_is_not_shown(tmp_path: Path) -> None:
    with pytest.raises(InvalidConfiguration) as caught:
        loaded(tmp_path, {"MAINSPRING_DATABASE_URL": "mysql://me:hunter2@host/db"})
    assert "hunter2" not in str(caught.value)
    assert "MAINSPRING_DATABASE_URL is not a PostgreSQL URL" in str(caught.value)


def test_a_broken_file_is_one_problem(tmp_path: Path) -> None:
    (tmp_path / "mainspring.toml").write_text("processes = ")
    with pytest.raises(InvalidConfiguration, match=r"mainspring\.toml cannot be read"):
        loaded(tmp_path)


def test_the_repr_shows_no_password() -> None:
    settings = Settings(database_url="postgresql://me:hunter2@host:5432/db")
    assert "hunter2" not in repr(settings)
    assert "postgresql://me:***@host:5432/db" in repr(settings)


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("postgresql://host/db", "postgresql://host/db"),
        ("postgresql://me@host/db", "postgresql://me@host/db"),
        ("postgresql://me:s:e@c@host/db", "postgresql://me:***@host/db"),
        ("postgresql://host/db?password=hunter2", "postgresql://host/db?***"),
        ("host=localhost password=hunter2", "***"),
    ],
)
def test_passwords_are_masked(url: str, shown: str) -> None:
    assert without_password(url) == shown


def test_settings_are_frozen() -> None:
    with pytest.raises(dataclasses.FrozenInstanceError):
        Settings().processes = 3  # type: ignore[misc]


def test_a_child_gets_the_same_settings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    settings = Settings(
        queues=("a", "b"),
        database_pooled=True,
        lease_seconds=2.5,
        heartbeat_seconds=0.5,
        data_dir=tmp_path,
    )
    monkeypatch.setenv("UNRELATED", "kept")
    environ = child_environment(settings)
    assert environ["UNRELATED"] == "kept"
    assert load(environ=environ, directory=tmp_path) == settings


def test_misspelt_variables_are_found() -> None:
    environ = {"MAINSPRING_PROCESES": "1", "MAINSPRING_PROCESSES": "1", "PATH": "/"}
    assert unknown_variables(environ) == ["MAINSPRING_PROCESES"]
