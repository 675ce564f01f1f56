import json
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from acceptance.shell import Shell


def submitted(installation: Shell, *arguments: str) -> str:
    answer = installation("tasks", "submit", *arguments)
    assert answer.status == 0, answer.err
    return answer.out.strip()


class TestSubmit:
    def test_a_task_runs(self, installation: Shell) -> None:
        answer = installation(
            "tasks", "submit", "greet", "--payload", '{"name": "Ada"}', "--wait", "--json"
        )
        assert answer.status == 0
        assert (answer.value["status"], answer.value["result"]) == ("completed", "hello Ada")
        assert answer.err == ""

    def test_without_json_it_prints_the_id(self, installation: Shell) -> None:
        task_id = submitted(installation, "greet")
        assert installation("tasks", "get", task_id, "--json").value["task_id"] == task_id
        assert task_id in installation("tasks", "get", task_id).out

    def test_every_option_arrives(self, installation: Shell) -> None:
        at = datetime.now(UTC) + timedelta(days=1)
        task = installation(
            *("tasks", "submit", "anything.new", "--at", at.isoformat(), "--priority", 7),
            *("--queue", "elsewhere", "--timeout", "2m", "--max-retries", 9),
            *("--backoff", "linear", "--key", "the-key", "--json"),
        ).value
        assert datetime.fromisoformat(task["scheduled_at"]) == at
        assert {name: task[name] for name in ("priority", "queue", "timeout", "max_retries")} == {
            "priority": 7,
            "queue": "elsewhere",
            "timeout": 120.0,
            "max_retries": 9,
        }
        assert (task["retry_backoff"], task["key"], task["level"]) == ("linear", "the-key", "low")
        assert (task["status"], task["ready"]) == ("pending", False)

    def test_in_is_counted_from_now(self, installation: Shell) -> None:
        task = installation("tasks", "submit", "greet", "--in", "1h30m", "--json").value
        ahead = datetime.fromisoformat(task["scheduled_at"]) - datetime.fromisoformat(
            task["created_at"]
        )
        assert ahead == timedelta(minutes=90)

    def test_a_payload_from_a_file_or_standard_input(
        self, installation: Shell, tmp_path: Path
    ) -> None:
        file = tmp_path / "payload.json"
        file.write_text('{"name": "file"}')
        for argument, stdin in ((f"@{file}", b""), ("-", b'{"name": "file"}')):
            answer = installation(
                "tasks", "submit", "x", "--payload", argument, "--json", stdin=stdin
            )
            assert answer.value["payload"] == {"name": "file"}

    def test_a_key_makes_one_task(self, installation: Shell) -> None:
        first = submitted(installation, "greet", "--key", "only-once")
        again = installation("tasks", "submit", "greet", "--key", "only-once")
        assert (again.status, again.out.strip()) == (0, first)
        assert "was used before" in again.err
        other = installation("tasks", "submit", "nap", "--key", "only-once")
        assert other.status == 4
        assert "was used before for a different task" in other.sentence

    def test_waiting_tells_how_it_ended(self, installation: Shell) -> None:
        failed = installation("tasks", "submit", "fail", "--wait", "--max-retries", 0)
        assert failed.status == 1
        assert "is failed: ValueError: broken" in failed.err

    def test_waiting_is_bounded(self, installation: Shell) -> None:
        arguments = ("tasks", "submit", "nobody.does.this", "--wait", "--wait-timeout", "1s")
        late = installation(*arguments, "--json")
        assert late.status == 1
        assert "did not end within 1 s" in late.err
        assert late.value["status"] == "pending", "a script learns the id"

    def test_with_the_app_the_defaults_of_its_type_apply(self, installation: Shell) -> None:
        submit = ("tasks", "submit", "fail", "--app", "acceptance_app:app", "--in", "1h", "--json")
        assert (
            installation("tasks", "submit", "fail", "--in", "1h", "--json").value["max_retries"]
            == 3
        )
        assert installation(*submit).value["max_retries"] == 0
        assert installation(*submit, "--max-retries", 2).value["max_retries"] == 2
        refused = installation(*submit, "--payload", '{"text": 1}')
        assert refused.status == 2
        assert "payload.text does not fit task type 'fail'" in refused.sentence
        unknown = installation("tasks", "submit", "fial", "--app", "acceptance_app:app")
        assert unknown.status == 2
        assert "fial" in unknown.sentence


class TestLooking:
    def test_lists_are_filtered_and_newest_first(self, installation: Shell) -> None:
        ids = [submitted(installation, "list.me", "--queue", "listed") for _ in range(3)]
        found = installation(
            *("tasks", "list", "--type", "list.me", "--queue", "listed", "--since", "1h"),
            *("--status", "ready", "--limit", 2, "--json"),
        ).lines
        assert [task["task_id"] for task in found] == ids[:0:-1]
        assert installation("tasks", "list", "--type", "never.seen", "--json").out == ""
        table = installation("tasks", "list", "--type", "list.me").out.splitlines()
        assert table[0].split()[:3] == ["ID", "TYPE", "STATUS"]
        assert len(table) == 4

    def test_an_unknown_type_is_kept_and_reported(self, installation: Shell) -> None:
        task_id = submitted(installation, "no.such.handler", "--queue", "orphans")
        assert installation("tasks", "get", task_id, "--json").value["status"] == "pending"
        (queue,) = [
            one
            for one in installation("queues", "list", "--json").lines
            if one["queue"] == "orphans"
        ]
        assert (queue["ready"], queue["running"]) == (1, 0)

    def test_watching_one_task_ends_with_it(self, installation: Shell) -> None:
        task_id = submitted(installation, "greet", "--in", "1h")
        watching = installation.start("tasks", "watch", task_id, "--json", "--interval", "0.1")
        watching.until('"status":"pending"')
        installation("tasks", "run-now", task_id)
        watching.until('"status":"completed"')
        assert watching.process.wait(20) == 0
        assert watching.stop() == 0

    def test_workers_and_doctor(self, installation: Shell) -> None:
        (worker,) = installation("workers", "list", "--json").lines
        assert worker["slots"] > 0
        checks = {one["check"]: one["ok"] for one in installation("doctor", "--json").lines}
        # Other tests leave tasks behind that nobody has a handler for, and that is found, too.
        assert [check for check, ok in checks.items() if not ok] in ([], ["task types"])
        assert "fsync is on" in installation("doctor").out


class TestChanging:
    def test_cancel(self, installation: Shell) -> None:
        task_id = submitted(installation, "greet", "--in", "1h")
        answer = installation("tasks", "cancel", task_id, "--reason", "mistake", "--json")
        assert (answer.status, answer.value) == (0, {"task_id": task_id, "status": "cancelled"})
        task = installation("tasks", "get", task_id, "--json").value
        assert (task["status"], task["reason"]) == ("cancelled", "mistake")
        again = installation("tasks", "cancel", task_id)
        assert (again.status, again.out) == (4, f"{task_id} finished\n")

    def test_moving_in_time(self, installation: Shell) -> None:
        task_id = submitted(installation, "greet", "--in", "1h")
        moved = installation(
            "tasks", "reschedule", task_id, "--at", "2050-01-01T00:00:00Z", "--json"
        )
        assert moved.value["scheduled_at"] == "2050-01-01T00:00:00Z"
        assert installation("tasks", "run-now", task_id).status == 0
        assert installation("tasks", "watch", task_id, "--interval", "0.1").status == 0
        late = installation("tasks", "run-now", task_id)
        assert late.status == 4
        assert "only a task that waits" in late.sentence

    def test_dead_letters(self, installation: Shell) -> None:
        installation("tasks", "submit", "fail", "--wait", "--max-retries", 0)
        letters = installation("dead-letters", "list", "--type", "fail", "--json").lines
        task_id = letters[0]["task_id"]
        shown = installation("dead-letters", "get", task_id).out
        assert "raise ValueError(text)" in shown
        replayed = installation(
            "dead-letters", "replay", task_id, "--payload", '{"text": "again"}', "--json"
        )
        assert replayed.value == {"task_id": task_id, "status": "pending"}
        assert installation("tasks", "watch", task_id, "--interval", "0.1").status == 1
        task = installation("dead-letters", "get", task_id, "--json").value
        assert task["last_error"] == "ValueError: again"
        gone = installation("dead-letters", "discard", task_id, "--reason", "known")
        assert gone.out.strip() == task_id
        for command in (("get",), ("replay",), ("discard", "--reason", "x")):
            answer = installation("dead-letters", *command, task_id)
            assert answer.status == 4
            assert "is discarded" in answer.sentence

    def test_a_paused_queue_waits(self, installation: Shell) -> None:
        assert installation("queues", "pause", "slowly").out == "slowly is paused\n"
        task_id = submitted(installation, "greet", "--queue", "slowly")
        assert installation("tasks", "get", task_id, "--json").value["ready"]
        assert installation("queues", "resume", "slowly").status == 0
        assert installation("tasks", "watch", task_id, "--interval", "0.1").status == 0


class TestImport:
    def test_lines_become_tasks_and_wrong_ones_are_named(
        self, installation: Shell, tmp_path: Path
    ) -> None:
        lines = [
            '{"task_type": "import.me", "payload": {"n": 1}, "priority": 2}',
            "",
            '{"task_type": "import.me", "priority": 11}',
            '{"payload": {}}',
            "{not json",
            '{"task_type": "import.me", "payload": {"a": "\\u0000"}}',
            '{"task_type": "import.me", "payload": {"a": 1, "a": 2}}',
            '{"task_type": "import.me", "colour": "red"}',
            '{"task_type": "import.me", "payload": {"n": 2}, "delay": 3600, "key": "own"}',
        ]
        file = tmp_path / "tasks.jsonl"
        file.write_text("\n".join(lines))
        answer = installation("tasks", "import", file, "--json")
        assert answer.status == 1
        *refused, summary = answer.lines
        assert [(one["line"], one["field"]) for one in refused] == [
            (3, "priority"),
            (4, "task_type"),
            (5, "line"),
            (6, "payload.a"),
            (7, "line"),
            (8, "colour"),
        ]
        assert summary == {"stored": 2, "repeated": 0, "refused": 6}
        again = installation("tasks", "import", file, "--json").lines[-1]
        assert again == {"stored": 0, "repeated": 2, "refused": 6}
        stored = installation("tasks", "list", "--type", "import.me", "--json").lines
        assert sorted(task["payload"]["n"] for task in stored) == [1, 2]

    def test_checking_stores_nothing(self, installation: Shell, tmp_path: Path) -> None:
        file = tmp_path / "tasks.jsonl"
        file.write_text('{"task_type": "never.stored"}\n{"task_type": "never stored"}\n')
        answer = installation("tasks", "import", file, "--check")
        assert answer.status == 1
        assert "line 2: task_type is 'never stored'" in answer.err
        assert installation("tasks", "list", "--type", "never.stored", "--json").out == ""

    def test_an_import_that_was_killed_is_resumed_without_doubles(
        self, installation: Shell, tmp_path: Path
    ) -> None:
        file = tmp_path / "tasks.jsonl"
        count = 20_000
        with file.open("w") as lines:
            for number in range(count):
                task = {"task_type": "import.big", "payload": {"n": number}, "queue": "big"}
                lines.write(json.dumps(task) + "\n")
        running = installation.start("tasks", "import", file)
        while not installation("tasks", "list", "--type", "import.big", "--limit", 1).out.count(
            "import.big"
        ):
            assert running.process.poll() is None
        running.process.kill()
        running.stop()
        before = installation("queues", "list", "--json").lines
        stored = next(one["ready"] for one in before if one["queue"] == "big")
        assert 0 < stored < count, "it was killed in the middle"
        summary = installation("tasks", "import", file, "--json").value
        assert summary["stored"] + summary["repeated"] == count
        assert summary["repeated"] >= stored
        after = installation("queues", "list", "--json").lines
        assert next(one["ready"] for one in after if one["queue"] == "big") == count


@pytest.mark.parametrize(
    ("arguments", "status", "sentence"),
    [
        (("submit", "two words"), 2, "task_type is 'two words'; a name has 1 to 200"),
        (("submit", "t", "--priority", "11"), 2, "priority is 11; give a whole number from 0"),
        (("submit", "t", "--in", "soon"), 2, "delay is 'soon'; write a duration as 90s"),
        (("submit", "t", "--in", "99999d"), 2, "delay is"),
        (("submit", "t", "--at", "2026-01-01"), 2, "has no offset from UTC"),
        (("submit", "t", "--at", "0001-01-01T00:00:00+14:00"), 2, "from 1970 to 2199"),
        (("submit", "t", "--at", "9999-12-31T23:59:59-12:00"), 2, "from 1970 to 2199"),
        (("submit", "t", "--at", "2030-01-01T00:00:00Z", "--in", "5s"), 2, "at one time"),
        (("submit", "t", "--timeout", "0"), 2, "timeout is 0"),
        (("submit", "t", "--max-retries", "-1"), 2, "max_retries is -1"),
        (("submit", "t", "--backoff", "never"), 2, "choose from exponential, linear, fixed"),
        (("submit", "t", "--key", "k" * 256), 2, "1 to 255"),
        (("submit", "t", "--payload", "{"), 2, "payload is not JSON"),
        (("submit", "t", "--payload", "[1]"), 2, "give a JSON object"),
        (("submit", "t", "--payload", '{"a": "\\u0000"}'), 2, "payload.a is text that contains"),
        (("submit", "t", "--payload", '{"a": "\\ud800"}'), 2, "payload.a is text that contains"),
        (("submit", "t", "--payload", '{"a": NaN}'), 2, "payload contains NaN"),
        (("submit", "t", "--payload", '{"a": 1e999}'), 2, "payload has the number '1e999'"),
        (("submit", "t", "--payload", '{"a": %s}' % ("9" * 4301)), 2, "64 characters"),
        (("submit", "t", "--payload", '{"a": %s}' % ("[" * 5000)), 2, "nested"),
        (("submit", "t", "--payload", "@/no/such/file"), 2, "No such file"),
        (("get", "seven"), 2, "a task id is a UUID"),
        (("get", "01900000-0000-7000-8000-000000000000"), 4, "there is no task 01900000"),
        (("cancel", "01900000-0000-7000-8000-00000000000x"), 2, "a task id is a UUID"),
        (("run-now", "01900000-0000-7000-8000-000000000000"), 4, "there is no task"),
        (("import", "/no/such/file"), 2, "No such file"),
        (("import", "/dev/stdin"), 2, "save it as a regular file"),
        (("list", "--since", "yesterday"), 2, "how long ago it was, such as 2h"),
        (("list", "--since", "999999999d"), 2, "give a time from 1970 on"),
        (("submit", "t", "--payload", "null"), 2, "payload is null; give a JSON object"),
    ],
)
def test_wrong_use_is_one_clear_sentence(
    installation: Shell, arguments: tuple[str, ...], status: int, sentence: str
) -> None:
    answer = installation("tasks", *arguments)
    assert (answer.status, answer.out) == (status, "")
    assert sentence in answer.sentence
