"""Work inside transactions that callers hold."""

from typing import Any

from mainspring.ports.transactions import CallerTransactions


def caller_transactions() -> CallerTransactions:
    """Return what runs our writes on the connections of callers."""
    x: Any = None
    return x
