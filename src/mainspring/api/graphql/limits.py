"""What a query may be, measured before anything is validated or run.

Validation itself takes longer the more a document repeats, so its bounds come first. A fragment is
measured once, however often it is used: fragments that use each other twice stand for more fields
than anybody could count.
"""

from collections.abc import Mapping
from typing import Any, Final

import msgspec
from graphql import GraphQLError, parse
from graphql.language import (
    DocumentNode,
    FieldNode,
    FragmentDefinitionNode,
    FragmentSpreadNode,
    InlineFragmentNode,
    IntValueNode,
    OperationDefinitionNode,
    SelectionSetNode,
    VariableNode,
)

from mainspring.api.graphql.problems import TooCostly, Unreadable
from mainspring.domain.task import ATTEMPTS_KEPT

TOKENS_MAX: Final = 2000
ALIASES_MAX: Final = 30
DEPTH_MAX: Final = 8
"""Fields in fields; what asks about the schema itself is not counted."""

NESTING_MAX: Final = 40
"""Selections in selections, fragments and questions about the schema included."""

COST_MAX: Final = 10_000
"""Objects that an answer may hold."""

PAGES: Final = {"tasks": 50, "deadLetters": 50, "history": 50}
"""Fields with a `limit`, and how many they give without one."""

LISTS: Final = {
    "attempts": ATTEMPTS_KEPT,
    "schedules": 100,
    "queues": 50,
    "groups": 50,
    "workers": 50,
    "levels": 5,
}
"""Lists without pages, and how long they are taken to be."""

_PAGE_TYPE: Final = "TaskPage"


class _Size(msgspec.Struct, frozen=True):
    depth: int = 0
    nesting: int = 0
    aliases: int = 0
    cost: int = 0


def read_document(query: str) -> DocumentNode:
    """Return a query as it was understood, or raise `Unreadable`."""
    try:
        return parse(query, max_tokens=TOKENS_MAX)
    except GraphQLError as error:
        # Among them the bounds on tokens and on nesting that the parser holds by itself.
        raise Unreadable(error.message, field="query") from None
    except RecursionError:
        message = "the query is nested too deeply; make it flatter"
        raise Unreadable(message, field="query") from None


def check_limits(
    document: DocumentNode, operation: OperationDefinitionNode, variables: Mapping[str, Any]
) -> None:
    """Raise `TooCostly` for a query that asks for more than one may."""
    try:
        size = _Measure(document, operation, variables).of(operation.selection_set, "Query")
    except RecursionError:
        size = _Size(nesting=NESTING_MAX + 1)
    for what, given, most in (
        ("aliases", size.aliases, ALIASES_MAX),
        ("levels of fields", size.depth, DEPTH_MAX),
        ("levels of selections", size.nesting, NESTING_MAX),
        ("objects to answer", size.cost, COST_MAX),
    ):
        if given > most:
            message = f"the query has more than {most:,} {what}; ask for less at once"
            raise TooCostly(message, field="query")


class _Measure:
    def __init__(
        self,
        document: DocumentNode,
        operation: OperationDefinitionNode,
        variables: Mapping[str, Any],
    ) -> None:
        self._fragments = {
            node.name.value: node
            for node in document.definitions
            if isinstance(node, FragmentDefinitionNode)
        }
        self._variables = {
            node.variable.name.value: node.default_value
            for node in operation.variable_definitions or ()
        } | dict(variables)
        self._known: dict[str, _Size] = {}

    def of(self, selections: SelectionSetNode | None, within: str) -> _Size:
        """Measure what is asked of an object of the type `within`."""
        if selections is None:
            return _Size()
        parts = [self._part(node, within) for node in selections.selections]
        return _Size(
            depth=max(part.depth for part in parts),
            nesting=1 + max(part.nesting for part in parts),
            aliases=sum(part.aliases for part in parts),
            cost=sum(part.cost for part in parts),
        )

    def _part(self, node: object, within: str) -> _Size:
        if isinstance(node, FieldNode):
            return self._field(node, within)
        if isinstance(node, InlineFragmentNode):
            condition = node.type_condition
            return self.of(node.selection_set, condition.name.value if condition else within)
        if isinstance(node, FragmentSpreadNode):
            return self._fragment(node.name.value)
        return _Size()

    def _field(self, node: FieldNode, within: str) -> _Size:
        name = node.name.value
        is_page = name in PAGES and within != _PAGE_TYPE
        inner = self.of(node.selection_set, _PAGE_TYPE if is_page else "")
        aliases = inner.aliases + (node.alias is not None)
        if name.startswith("__"):
            return _Size(nesting=inner.nesting, aliases=aliases, cost=inner.cost)
        # A field without fields of its own is part of its object and costs nothing beside it.
        count = 0 if node.selection_set is None else self._count(node, name, within)
        return _Size(
            depth=1 + inner.depth,
            nesting=inner.nesting,
            aliases=aliases,
            cost=count * (1 + inner.cost),
        )

    def _fragment(self, name: str) -> _Size:
        if name not in self._known:
            # A fragment that uses itself is refused by the validation that comes next.
            self._known[name] = _Size()
            node = self._fragments.get(name)
            if node is not None:
                self._known[name] = self.of(node.selection_set, node.type_condition.name.value)
        return self._known[name]

    def _count(self, node: FieldNode, name: str, within: str) -> int:
        if within == _PAGE_TYPE:
            # The list in a page is as long as the page, and the page has been counted.
            return 1
        given: Any = None
        for argument in node.arguments or ():
            if argument.name.value == "limit":
                given = argument.value
        if isinstance(given, VariableNode):
            given = self._variables.get(given.name.value)
        if isinstance(given, IntValueNode):
            given = given.value
        if given is None:
            return LISTS.get(name, PAGES.get(name, 1))
        try:
            return max(1, int(given))
        except (TypeError, ValueError):
            # The validation that comes next says so.
            return 1
