"""The tools of a catalog, ready to be searched; one tool more or less costs only that tool."""

from collections.abc import Container, Iterable
from dataclasses import dataclass
from heapq import nsmallest
from itertools import islice

from agenttool.catalog.catalog import Entry
from agenttool.catalog.search.document import Document, document_of
from agenttool.catalog.search.names import Names
from agenttool.catalog.search.score import Scorer, read_query
from agenttool.catalog.search.vocabulary import Vocabulary
from agenttool.records import ToolId


@dataclass(frozen=True, slots=True)
class Found:
    """One tool that answers a query, how well, and why."""

    tool_id: ToolId
    score: float
    reason: str


class Index:
    """Names and words of tools. Adding is free; the work is done by `catch_up`, in steps as small as one likes."""

    def __init__(self) -> None:
        """Begin with nothing."""
        self._names = Names()
        self._entries: dict[ToolId, Entry] = {}
        self._documents: dict[ToolId, Document] = {}
        self._waiting: dict[ToolId, None] = {}
        self._vocabulary = Vocabulary()

    def put(self, entry: Entry) -> None:
        """Add a tool, or replace the one with the same id."""
        self.remove(entry.tool_id)
        self._entries[entry.tool_id] = entry
        self._waiting[entry.tool_id] = None
        self._names.add(entry)

    def remove(self, tool_id: ToolId) -> None:
        """Forget a tool, if it is there."""
        entry = self._entries.pop(tool_id, None)
        if entry is None:
            return
        self._waiting.pop(tool_id, None)
        self._names.remove(entry)
        document = self._documents.pop(tool_id, None)
        if document is not None:
            self._vocabulary.remove(document)

    def catch_up(self, tools: int) -> bool:
        """Read at most so many tools that were added since; tell whether more are waiting."""
        for tool_id in tuple(islice(self._waiting, tools)):
            self._read(tool_id)
        return bool(self._waiting)

    def _read(self, tool_id: ToolId) -> None:
        del self._waiting[tool_id]
        document = self._documents[tool_id] = document_of(self._entries[tool_id])
        self._vocabulary.add(document)

    def named(self, name: str, known: Container[ToolId]) -> tuple[ToolId, ...]:
        """Find tools by an exact name of theirs: qualified, bare, alias or id."""
        return tuple(each.tool_id for each in self._names.find(name) if each.tool_id in known)

    def find(self, query: str, known: Container[ToolId], limit: int) -> list[Found]:
        """Find the tools that answer a query best; one that is named exactly comes first."""
        exact = self.named(query.strip(), known)[:limit]
        found = [Found(each, 1.0, "this is its name") for each in exact]
        asked = read_query(query, self._vocabulary)
        scorer = Scorer(asked, self._vocabulary)
        scored = (
            (-score, each)
            for each in self._candidates()
            if each in known and each not in exact and (score := scorer.score(self._documents[each])) > 0
        )
        for score, each in nsmallest(limit - len(found), scored):
            found.append(Found(each, round(-score, 4), scorer.reason(self._documents[each])))
        return found

    def _candidates(self) -> Iterable[ToolId]:
        return self._documents
