"""Child processes that end with this one."""

import signal
from collections.abc import Callable

from mainspring.adapters.postgres.parent_death import follow_parent


def drain_with_parent() -> Callable[[], None] | None:
    """Return a ``preexec_fn`` for children that shall drain when this process dies in any way.

    None where the kernel offers no such thing; there they go on after a `kill -9` of this one.
    """
    return follow_parent(signal.SIGTERM)
