"""The port by which an application replaces the ranking of search results."""

from collections.abc import Iterable, Sequence
from typing import Protocol

from agenttool.records import ToolDeclaration


class Retriever(Protocol):
    """Ranks tools for a query in words. Names after `select:` and patterns after `regex:` do not use it."""

    async def retrieve(self, query: str, tools: Iterable[ToolDeclaration], limit: int) -> Sequence[str]:
        """Return the ids or names of the tools that fit a query, best first.

        Args:
            query: the words of the user or the model.
            tools: the tools that the caller may find; any other name that is returned is ignored.
            limit: how many tools are used at most.
        """
        ...
