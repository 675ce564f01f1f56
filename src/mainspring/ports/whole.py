"""Everything that an installation keeps."""

from collections.abc import Sequence
from typing import Protocol

from mainspring.ports.access import Access
from mainspring.ports.figures import Figures
from mainspring.ports.store import Store


class WholeStore(Store, Access, Figures, Protocol):
    """Tasks, schedules, keys and figures in one."""

    def parts(self) -> "Sequence[WholeStore]":
        """Return the parts by number."""
        ...
