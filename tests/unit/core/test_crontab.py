import pytest

from mainspring.core.crontab import CrontabEntry, CrontabProblem, read_crontab


def entries(text: str, **options: str) -> list[CrontabEntry]:
    found = list(read_crontab(text, **options))
    assert all(isinstance(one, CrontabEntry) for one in found), found
    return [one for one in found if isinstance(one, CrontabEntry)]


def problem(text: str) -> CrontabProblem:
    (found,) = read_crontab(text)
    assert isinstance(found, CrontabProblem)
    return found


def test_comments_and_empty_lines_are_nothing() -> None:
    assert entries("# a\n\n   # b\n\t\n") == []


@pytest.mark.parametrize(
    ("line", "cron", "command"),
    [
        ("*/5 * * * * /bin/true", "*/5 * * * *", "/bin/true"),
        ("0\t9 * * MON-FRI  run   me", "0\t9 * * MON-FRI", "run   me"),
        ("@daily run", "@daily", "run"),
        ("  1 2 3 4 5 run # not a comment", "1 2 3 4 5", "run # not a comment"),
    ],
)
def test_a_line_is_a_time_and_a_command(line: str, cron: str, command: str) -> None:
    (entry,) = entries(line)
    assert (entry.cron, entry.command) == (cron, command)


@pytest.mark.parametrize(
    ("text", "command", "stdin"),
    [
        ("mail -s hi%Dear you,%bye", "mail -s hi", "Dear you,\nbye\n"),
        (r"date +\%Y", "date +%Y", ""),
        (r"cat%100\% sure", "cat", "100% sure\n"),
        ("cat%", "cat", "\n"),
    ],
)
def test_a_percent_sign_begins_the_input(text: str, command: str, stdin: str) -> None:
    (entry,) = entries(f"* * * * * {text}")
    assert (entry.command, entry.stdin) == (command, stdin)


def test_settings_hold_for_the_lines_below_them() -> None:
    first, second, third = entries(
        "0 1 * * * a\nCRON_TZ=Europe/Berlin\nPATH = '/opt/bin:/bin'\n0 1 * * * b\n"
        "CRON_TZ=UTC\nMAILTO=me\n0 1 * * * c\n",
        timezone="Asia/Tokyo",
    )
    assert [one.timezone for one in (first, second, third)] == [
        "Asia/Tokyo",
        "Europe/Berlin",
        "UTC",
    ]
    assert (first.environment, third.environment) == ({}, {"PATH": "/opt/bin:/bin"})


def test_names_stay_when_other_lines_change() -> None:
    one, two = entries("0 1 * * * /usr/bin/backup.sh --all\n0 2 * * * /usr/bin/backup.sh --all\n")
    (again,) = entries("# moved\n\n0 2 * * * /usr/bin/backup.sh --all\n")
    assert one.name.startswith("cron.backup.sh-")
    assert one.name != two.name == again.name


def test_a_comment_can_name_the_next_line() -> None:
    first, second = entries("# name: nightly\n# about it\n0 1 * * * a\n0 1 * * * b\n")
    assert first.name == "nightly"
    assert second.name.startswith("cron.b-")


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("61 * * * * a", "minute"),
        ("* * * * *", "five fields"),
        ("@reboot a", "@reboot"),
        ("CRON_TZ=Mars\n* * * * * a", "time zone"),
        ("# name: no spaces!\n0 0 30 2 * a", "never"),
        ("hello", "five fields"),
    ],
)
def test_a_line_that_is_wrong_says_why(line: str, words: str) -> None:
    assert words in problem(line).message


def test_the_same_line_twice_is_refused_once() -> None:
    first, second = read_crontab("0 1 * * * a\n0 1 * * * a\n")
    assert isinstance(first, CrontabEntry)
    assert isinstance(second, CrontabProblem)
    assert second.line == 2
