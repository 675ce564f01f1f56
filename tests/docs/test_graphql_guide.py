"""The guide to GraphQL, command by command."""

from pathlib import Path

import pytest

from docs.console import terminal

ROOT = Path(__file__).parents[2]


@pytest.mark.slow
@pytest.mark.postgres
@pytest.mark.timeout(300)
def test_the_guide_works_as_shown(tmp_path: Path) -> None:
    page = (ROOT / "docs" / "guides" / "graphql.md").read_text()
    with terminal(tmp_path, ROOT) as opened:
        opened.run(page)
