"""One judgement of the settings that keep acknowledged tasks, for warnings and for the check-up."""

import pytest

from mainspring.adapters.postgres.safety import Severity, durability

SAFE = {
    "fsync": "on",
    "full_page_writes": "on",
    "synchronous_commit": "on",
    "synchronous_standby_names": "",
}


@pytest.mark.parametrize(
    ("changes", "bad"),
    [
        ({}, []),
        ({"fsync": "off"}, ["fsync"]),
        ({"full_page_writes": "off"}, ["full_page_writes"]),
        ({"synchronous_commit": "off"}, ["synchronous_commit"]),
        # On its own disk is all there is, unless somebody set up standbys to wait for.
        ({"synchronous_commit": "local"}, []),
        (
            {"synchronous_commit": "local", "synchronous_standby_names": "*"},
            ["synchronous_commit"],
        ),
        ({"synchronous_standby_names": "*"}, []),
    ],
)
def test_settings_are_judged(changes: dict[str, str], bad: list[str]) -> None:
    found = durability({**SAFE, **changes})
    assert [one.subject for one in found if one.severity is not Severity.OK] == bad
