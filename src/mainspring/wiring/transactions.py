"""Work inside transactions that callers hold."""

from collections.abc import Callable

from mainspring.adapters.postgres.caller import PostgresCallerTransactions
from mainspring.config import Settings, split_urls
from mainspring.ports.transactions import CallerTransactions


def caller_transactions(settings: Callable[[], Settings]) -> CallerTransactions:
    """Return what runs our writes on the connections of callers; the settings are read then."""
    return PostgresCallerTransactions(lambda: len(split_urls(settings().database_url)) > 1)
