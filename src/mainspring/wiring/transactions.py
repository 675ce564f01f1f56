"""Work inside transactions that callers hold."""

from mainspring.adapters.postgres.caller import PostgresCallerTransactions
from mainspring.ports.transactions import CallerTransactions


def caller_transactions() -> CallerTransactions:
    """Return what runs our writes on the connections of callers."""
    return PostgresCallerTransactions()
