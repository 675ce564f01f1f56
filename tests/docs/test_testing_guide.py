"""The example of `docs/guides/testing.md` is a test that passes, and its table is complete."""

import inspect
import re
from pathlib import Path

from mainspring.testing import TestApp

PAGE = Path(__file__).parents[2] / "docs" / "guides" / "testing.md"


async def test_the_example_passes() -> None:
    (example,) = re.findall(r"```python\n(.*?)```", PAGE.read_text(), re.DOTALL)
    names: dict[str, object] = {"__name__": "guide"}
    exec(compile(example, str(PAGE), "exec", dont_inherit=True), names)
    test = names["test_a_charge_is_tried_again"]
    assert callable(test)
    await test()


def test_every_method_is_on_the_page() -> None:
    text = PAGE.read_text()
    methods = [
        name for name, _ in inspect.getmembers(TestApp, inspect.isfunction) if name[0] != "_"
    ]
    assert methods
    assert [name for name in methods if f"t.{name}(" not in text] == []
