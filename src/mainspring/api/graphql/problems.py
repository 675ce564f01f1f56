"""What is wrong with a request in GraphQL itself."""

from mainspring.api.errors import RequestProblem


class Unreadable(RequestProblem):
    """The query is not GraphQL, or does not fit the schema."""

    code = "graphql_invalid"


class TooCostly(RequestProblem):
    """The query asks for more at once than one may."""

    code = "graphql_too_costly"
