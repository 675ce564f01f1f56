"""Statements that pass over what is just leaving this shard.

What leaves is refused by the guard of the migration 0017, row by row. Statements that look for work
would meet the same rows first again and again, so while there are any they leave them out. They are
variants of their own, so that nobody else pays for it.
"""

from typing import Final

from mainspring.adapters.postgres.moving.statements import STATEMENTS
from mainspring.adapters.postgres.queries import Query

_STAYS: Final = STATEMENTS["stays"].sql


def passing_over(query: Query, condition: str) -> Query:
    """Return a statement that looks only at rows that stay, wherever a condition begins so."""
    if condition not in query.sql:
        raise AssertionError(f"{query.name} has no condition {condition!r}")
    return query._replace(sql=query.sql.replace(condition, f"{_STAYS} AND {condition}"))
