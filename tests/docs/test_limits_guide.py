"""docs/guides/limits.md, command by command."""

from pathlib import Path

import pytest

from docs.console import terminal

ROOT = Path(__file__).parents[2]


@pytest.mark.slow
@pytest.mark.postgres
@pytest.mark.timeout(300)
def test_the_guide_works_as_shown(tmp_path: Path) -> None:
    with terminal(tmp_path, ROOT) as opened:
        opened.run((ROOT / "docs/guides/limits.md").read_text())
