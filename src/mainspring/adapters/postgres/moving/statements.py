"""The SQL of moving, apart from the statements of the store: some of it is filled in with names."""

from typing import Final

from mainspring.adapters.postgres.queries import Queries

STATEMENTS: Final = Queries("mainspring.adapters.postgres.moving")
