"""Each example, by the commands of its README, and what it leaves behind."""

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from PIL import Image

from docs.console import Terminal, terminal
from fixtures.missing import skip_or_fail

pytestmark = [pytest.mark.slow, pytest.mark.postgres]

ROOT = Path(__file__).parents[2]
EXAMPLES = ROOT / "examples"
README_LINES_MAX = 40
CODE_LINES_MAX = 120


@pytest.fixture
def opened(tmp_path: Path) -> Iterator[Terminal]:
    with terminal(tmp_path / "example", ROOT) as opened:
        yield opened


def run(opened: Terminal, name: str) -> Path:
    """Run an example in a copy of its directory, which is returned."""
    shutil.copytree(
        EXAMPLES / name,
        opened.directory,
        ignore=shutil.ignore_patterns(".mainspring", "__pycache__", "outbox", "photos"),
    )
    opened.run((EXAMPLES / name / "README.md").read_text())
    return opened.directory


@pytest.mark.timeout(200)
def test_the_mail_sender(opened: Terminal) -> None:
    directory = run(opened, "mail_sender")
    assert len(list((directory / "outbox").glob("*.eml"))) == 3


@pytest.mark.timeout(200)
def test_the_image_resizer(opened: Terminal) -> None:
    directory = run(opened, "image_resizer")
    sizes = set()
    for path in (directory / "photos" / "small-320").iterdir():
        with Image.open(path) as image:
            sizes.add(image.size)
    assert sizes == {(320, 213)}
    # It was cancelled before it was through.
    assert len(list((directory / "photos" / "small-2000").glob("*.png"))) < 12


@pytest.mark.timeout(200)
def test_the_web_shop(opened: Terminal) -> None:
    if shutil.which("curl") is None:
        skip_or_fail("curl is not installed")
    run(opened, "web_shop")


@pytest.mark.parametrize("name", sorted(path.name for path in EXAMPLES.iterdir()))
def test_an_example_is_read_in_five_minutes(name: str) -> None:
    def lines(pattern: str) -> int:
        return sum(len(path.read_text().splitlines()) for path in (EXAMPLES / name).glob(pattern))

    assert lines("README.md") <= README_LINES_MAX
    assert lines("*.py") <= CODE_LINES_MAX
