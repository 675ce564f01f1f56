"""The guide to security, command by command."""

import shutil
from pathlib import Path

import pytest

from docs.console import terminal
from fixtures.missing import skip_or_fail

ROOT = Path(__file__).parents[2]


@pytest.mark.slow
@pytest.mark.postgres
def test_the_guide_works_as_shown(tmp_path: Path) -> None:
    if shutil.which("openssl") is None:
        skip_or_fail("openssl is not installed")
    with terminal(tmp_path, ROOT) as opened:
        opened.run((ROOT / "docs" / "guides" / "security.md").read_text())
