"""The guide to the API, command by command."""

import re
import shutil
from pathlib import Path

import pytest

from docs.console import terminal
from fixtures.missing import skip_or_fail

ROOT = Path(__file__).parents[2]
_NODE = re.compile(r"^## Node\n.*?(?=^## )", re.MULTILINE | re.DOTALL)


@pytest.mark.slow
@pytest.mark.postgres
@pytest.mark.timeout(300)
def test_the_guide_works_as_shown(tmp_path: Path) -> None:
    page = (ROOT / "docs" / "guides" / "api.md").read_text()
    has_node = shutil.which("node") is not None
    assert _NODE.search(page)
    with terminal(tmp_path, ROOT) as opened:
        opened.run(page if has_node else _NODE.sub("", page))
    if not has_node:
        skip_or_fail("node is not installed; all but its part of the guide was run")
