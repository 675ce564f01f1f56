import json
import time
from pathlib import Path
from typing import Any

import psutil
import pytest

from acceptance.shell import Shell

PATIENCE_SECONDS = 30.0


def shown(installation: Shell, name: str) -> Any:
    return installation("schedules", "get", name, "--json").value


def is_alive(pid: int) -> bool:
    try:
        return psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


class TestPreview:
    def test_the_shape_that_scripts_rely_on(self, shell: Shell) -> None:
        answer = shell(
            *("schedules", "preview", "30 2 * * *", "--timezone", "Europe/Berlin"),
            *("--after", "2026-03-28T12:00:00Z", "--count", 2, "--json"),
        )
        assert answer.status == 0
        assert answer.value == {
            "expression": "30 2 * * *",
            "normalized": "30 2 * * *",
            "description": "At 02:30",
            "timezone": "Europe/Berlin",
            "next": [
                {"utc": "2026-03-29T01:00:00Z", "local": "2026-03-29T03:00:00+02:00"},
                {"utc": "2026-03-30T00:30:00Z", "local": "2026-03-30T02:30:00+02:00"},
            ],
            "warnings": answer.value["warnings"],
        }
        assert "fires once at 03:00 instead" in answer.value["warnings"][0]

    def test_without_json_it_is_a_table_with_warnings_beside_it(self, shell: Shell) -> None:
        answer = shell("schedules", "preview", "0 9 31 * *", "--count", 1)
        assert answer.out.splitlines()[1].split() == ["LOCAL", "UTC"]
        assert "'L' is the last day of any month" in answer.err

    @pytest.mark.parametrize(
        ("expression", "sentence"),
        [
            ("/5 * * * *", "write '*/5'"),
            ("0 0 30 2 *", "never"),
            ("* * * *", "fields"),
        ],
    )
    def test_a_wrong_expression_is_refused_with_the_way_out(
        self, shell: Shell, expression: str, sentence: str
    ) -> None:
        answer = shell("schedules", "preview", expression)
        assert answer.status == 2
        assert sentence in answer.sentence


class TestLife:
    def test_an_interval_fires_and_is_told_about(self, installation: Shell) -> None:
        made = installation(
            *("schedules", "create", "beat", "--type", "greet", "--every", "1s"),
            *("--payload", '{"name": "Ada"}', "--priority", 2, "--json"),
        )
        assert made.status == 0, made.err
        assert (made.value["kind"], made.value["priority"]) == ("interval", 2)
        until = time.monotonic() + PATIENCE_SECONDS
        ticks: list[Any] = []
        while len(ticks) < 2 and time.monotonic() < until:
            answer = installation("schedules", "history", "beat", "--json")
            ticks = [tick for tick in answer.lines if tick["task_status"] == "completed"]
        assert len({tick["nominal_at"] for tick in ticks}) >= 2
        task = installation("tasks", "get", ticks[0]["task_id"], "--json").value
        assert (task["schedule"], task["schedule_type"]) == ("beat", "recurring")
        assert task["nominal_at"] == ticks[0]["nominal_at"]
        assert task["result"] == "hello Ada"
        paused = installation("schedules", "pause", "beat", "--note", "enough", "--json").value
        assert (paused["status"], paused["note"]) == ("paused", "enough")
        assert "enough" in installation("schedules", "get", "beat").out
        assert "beat" in installation("schedules", "list").out
        assert installation("schedules", "resume", "beat", "--json").value["status"] == "active"
        assert installation("schedules", "delete", "beat").out == "beat is deleted\n"
        assert installation("schedules", "get", "beat").status == 4

    def test_an_edit_keeps_what_it_does_not_mention(self, installation: Shell) -> None:
        installation(
            *("schedules", "create", "nightly", "--type", "greet", "--cron", "0 2 * * *"),
            *("--timezone", "America/New_York", "--overlap", "buffer_one", "--jitter", "5m"),
        )
        edited = installation(
            *(
                "schedules",
                "update",
                "nightly",
                "--cron",
                "0 3 * * *",
                "--clear",
                "jitter",
                "--json",
            )
        ).value
        assert (edited["cron_expression"], edited["timezone"]) == ("0 3 * * *", "America/New_York")
        assert (edited["version"], edited["spec"]["jitter_seconds"]) == (2, 0)
        assert edited["spec"]["overlap"]["rule"] == "buffer_one"

    def test_another_of_the_same_name(self, installation: Shell) -> None:
        create = ("schedules", "create", "twice", "--type", "greet", "--cron")
        assert installation(*create, "0 2 * * *").status == 0
        assert installation(*create, "0 2 * * *").status == 0
        refused = installation(*create, "0 3 * * *")
        assert refused.status == 4
        assert "twice" in refused.sentence
        kept = installation(*create, "0 3 * * *", "--if-exists", "keep", "--json").value
        assert kept["cron_expression"] == "0 2 * * *"
        new = installation(*create, "0 3 * * *", "--if-exists", "replace", "--json").value
        assert new["cron_expression"] == "0 3 * * *"

    def test_triggered_by_hand(self, installation: Shell) -> None:
        installation("schedules", "create", "hand", "--type", "greet", "--cron", "0 0 1 1 *")
        task_id = installation("schedules", "trigger", "hand").out.strip()
        answer = installation("tasks", "watch", task_id, "--json")
        assert answer.lines[-1]["status"] == "completed"
        (tick,) = installation("schedules", "history", "hand", "--json").lines
        assert (tick["kind"], tick["task_id"]) == ("manual", task_id)

    def test_its_runs_have_a_group_a_unique_key_and_a_webhook(self, installation: Shell) -> None:
        installation("queues", "pause", "stopped")
        made = installation(
            *("schedules", "create", "keyed", "--type", "greet", "--cron", "0 0 1 1 *"),
            *("--group-key", "acme", "--unique-key", "k", "--overlap", "allow"),
            *("--webhook", "https://example.com/hook", "--queue", "stopped", "--json"),
        ).value
        assert (made["group_key"], made["unique_key"]) == ("acme", "k")
        assert made["webhook"]["url"] == "https://example.com/hook"
        task_id = installation("schedules", "trigger", "keyed").out.strip()
        again = installation("schedules", "trigger", "keyed")
        assert (again.out.strip(), again.status) == (task_id, 0)
        assert "unique key" in again.err
        history = installation("schedules", "history", "keyed")
        assert "unique" in history.out.splitlines()[1]
        installation("schedules", "update", "keyed", "--clear", "unique-key")
        assert "unique_key" not in installation("schedules", "get", "keyed").out
        installation("tasks", "cancel", task_id)

    def test_backfilled_after_a_dry_run(self, installation: Shell) -> None:
        installation("schedules", "create", "hours", "--type", "greet", "--cron", "0 * * * *")
        span = ("--start", "2026-03-08T05:00:00Z", "--end", "2026-03-08T08:00:00Z", "--json")
        dry = installation("schedules", "backfill", "hours", "--dry-run", *span).value
        assert (len(dry["runs"]), dry["started"]) == (3, [])
        done = installation("schedules", "backfill", "hours", *span).value
        assert len(done["started"]) == 3
        assert installation("schedules", "backfill", "hours", *span).value["started"] == []

    @pytest.mark.parametrize(
        ("arguments", "field"),
        [
            (("--cron", "61 * * * *"), "minute"),
            (("--every", "0s"), "every"),
            (("--cron", "0 9 * * *", "--timezone", "Mars/Base"), "time zone"),
            (("--cron", "0 9 * * *", "--every", "1h"), "exactly one"),
            ((), "exactly one"),
            (("--at", "2020-01-01T00:00:00Z"), "not later than now"),
        ],
    )
    def test_what_cannot_be_is_refused(
        self, installation: Shell, arguments: tuple[str, ...], field: str
    ) -> None:
        answer = installation("schedules", "create", "no", "--type", "greet", *arguments)
        assert answer.status == 2
        assert field in answer.sentence

    def test_declared_in_code_it_is_there_after_the_start(self, installation: Shell) -> None:
        declared = shown(installation, "declared")
        assert (declared["task_type"], declared["cron_expression"]) == ("greet", "0 9 * * MON-FRI")
        assert declared["payload"] == {"name": "schedule"}


CRONTAB = """\
# what runs at night
SHELL=/bin/sh
MAILTO=root
GREETING="good night"
0 0 1 1 * echo "$GREETING" > out.txt
CRON_TZ=Europe/Berlin
# name: with-input
@yearly cat > in.txt%first%second \\% done
99 * * * * echo never
not a line
"""


class TestCrontab:
    def test_lines_that_are_wrong_are_reported(self, shell: Shell, tmp_path: Path) -> None:
        (tmp_path / "crontab").write_text(CRONTAB)
        answer = shell("schedules", "import", "crontab", "--check", "--json")
        assert answer.status == 1
        first, second, third, fourth = answer.lines
        assert (first["cron"], first["timezone"]) == ("0 0 1 1 *", "UTC")
        assert first["environment"] == {"SHELL": "/bin/sh", "GREETING": "good night"}
        assert (second["name"], second["timezone"]) == ("with-input", "Europe/Berlin")
        assert (second["command"], second["stdin"]) == ("cat > in.txt", "first\nsecond % done\n")
        assert [third["line"], fourth["line"]] == [9, 10]
        assert "minute" in third["error"]

    def test_it_is_off_unless_it_is_turned_on(self, installation: Shell, tmp_path: Path) -> None:
        file = tmp_path / "crontab"
        file.write_text("* * * * * true\n")
        answer = installation("schedules", "import", file)
        assert answer.status == 2
        assert "MAINSPRING_SHELL_TASKS=true" in answer.sentence

    def test_the_same_file_twice_makes_the_same_schedules(
        self, installation: Shell, tmp_path: Path
    ) -> None:
        file = tmp_path / "crontab"
        file.write_text("0 0 1 1 * true one\n0 0 1 1 * true two\n")
        answers = [
            installation(
                *("schedules", "import", file, "--group-key", "night"),
                MAINSPRING_SHELL_TASKS="true",
            )
            for _ in range(2)
        ]
        assert [answer.status for answer in answers] == [0, 0]
        names = [line.split()[0] for line in answers[0].out.splitlines()]
        assert len(set(names)) == 2
        listed = installation("schedules", "list", "--json").lines
        assert sum(one["task_type"] == "shell" for one in listed) == 2
        for name in names:
            assert shown(installation, name)["group_key"] == "night"
            installation("schedules", "delete", name)

    def test_its_commands_run_in_a_worker_that_allows_it(
        self, installation: Shell, tmp_path: Path
    ) -> None:
        file = tmp_path / "crontab"
        file.write_text(f"HOME={tmp_path}\n{CRONTAB}".replace("99 * * * * echo never\n", ""))
        answer = installation("schedules", "import", file, MAINSPRING_SHELL_TASKS="true")
        assert answer.status == 1, answer.out
        worker = installation.start(
            *("worker", "--app", "acceptance_app:app", "--queues", "default"),
            MAINSPRING_SHELL_TASKS="true",
            MAINSPRING_PROCESSES="1",
        )
        try:
            worker.until("worker runs")
            for line in answer.out.splitlines():
                task_id = installation("schedules", "trigger", line.split()[0]).out.strip()
                end = installation("tasks", "watch", task_id, "--json").lines[-1]
                assert end["status"] == "completed", end
            # What a command leaves in the background ends with it when its time is over.
            payload = {"command": f"sleep 1000 & echo $! > {tmp_path}/pid; wait"}
            task_id = installation(
                *("tasks", "submit", "shell", "--payload", json.dumps(payload)),
                *("--timeout", "1s", "--max-retries", 0),
            ).out.strip()
            end = installation("tasks", "watch", task_id, "--json").lines[-1]
            assert end["status"] == "failed", end
            pid = int((tmp_path / "pid").read_text())
            until = time.monotonic() + PATIENCE_SECONDS
            while is_alive(pid) and time.monotonic() < until:
                installation("schedules", "list")
            assert not is_alive(pid)
        finally:
            assert worker.stop() == 0, worker.said
        assert (tmp_path / "out.txt").read_text() == "good night\n"
        assert (tmp_path / "in.txt").read_text() == "first\nsecond % done\n"
        for line in answer.out.splitlines():
            installation("schedules", "delete", line.split()[0])
