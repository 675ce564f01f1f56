"""The garbage collector in processes that handle very many short-lived objects.

Each task makes a few dozen objects, so that by default the collector looks for cycles after every
few tasks and walks over the tasks that are under way again and again: a tenth of the time.
"""

import gc
from typing import Final

YOUNG_OBJECTS: Final = 10_000
"""How many new objects there are before the collector looks at them."""


def collect_rarely() -> None:
    """Let what is there now out of collections, and collect less often.

    An app that has chosen otherwise, by `gc.disable` or larger thresholds, is left as it is.
    """
    gc.collect()
    gc.freeze()
    young, *older = gc.get_threshold()
    if 0 < young < YOUNG_OBJECTS:
        gc.set_threshold(YOUNG_OBJECTS, *older)
