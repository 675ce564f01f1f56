"""What every part of the sharded store works with."""

from mainspring.adapters.sharded.division import Division


class ShardedPart:
    """A part of the sharded store."""

    def __init__(self, division: Division) -> None:
        self._division = division
