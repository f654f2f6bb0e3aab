"""The tools of a catalog, ready to be searched; one tool more or less costs only that tool."""

from collections.abc import Collection, Container, Iterator
from dataclasses import dataclass
from heapq import nsmallest
from itertools import islice
from typing import TYPE_CHECKING

from agenttool.catalog.catalog import Entry
from agenttool.catalog.search.document import Document, document_of
from agenttool.catalog.search.names import Names
from agenttool.catalog.search.score import Asked, Scorer, read_query
from agenttool.catalog.search.vocabulary import Vocabulary
from agenttool.records import ToolId

if TYPE_CHECKING:
    from agenttool.catalog.search.candidates import Candidates

FEW = 500
"""So many tools are scored one by one; of more, only those that a full-text index brings."""

BROUGHT = 64
"""How many of them are scored, at least."""


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
        self._waiting: dict[ToolId, None] = {}
        self._documents: dict[ToolId, tuple[int, Document]] = {}
        self._numbered: dict[int, ToolId] = {}
        self._numbers = 0
        self._vocabulary = Vocabulary()
        self._candidates: Candidates | None = None

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
        self._names.remove(entry)
        if tool_id in self._waiting:
            del self._waiting[tool_id]
            return
        number, document = self._documents.pop(tool_id)
        del self._numbered[number]
        self._vocabulary.remove(document)
        if self._candidates is not None:
            self._candidates.remove(number)

    def catch_up(self, tools: int) -> bool:
        """Read at most so many tools that were added since; tell whether more are waiting."""
        if self._candidates is None and len(self._entries) > FEW:
            self._candidates = self._full_text()
        for tool_id in tuple(islice(self._waiting, tools)):
            del self._waiting[tool_id]
            self._read(tool_id)
        return bool(self._waiting)

    def _full_text(self) -> "Candidates":
        from agenttool.catalog.search.candidates import Candidates  # noqa: PLC0415 -- only large catalogs pay for it

        candidates = Candidates()
        for number, document in self._documents.values():
            candidates.add(number, document)
        return candidates

    def _read(self, tool_id: ToolId) -> None:
        self._numbers += 1
        document = document_of(self._entries[tool_id])
        self._documents[tool_id] = self._numbers, document
        self._numbered[self._numbers] = tool_id
        self._vocabulary.add(document)
        if self._candidates is not None:
            self._candidates.add(self._numbers, document)

    def named(self, name: str, known: Container[ToolId]) -> tuple[ToolId, ...]:
        """Find tools by an exact name of theirs: qualified, bare, alias or id."""
        return tuple(each.tool_id for each in self._names.find(name) if each.tool_id in known)

    def find(self, query: str, known: Collection[ToolId], limit: int) -> list[Found]:
        """Find the tools that answer a query best; one that is named exactly comes first."""
        exact = self.named(query.strip(), known)[:limit]
        found = [Found(each, 1.0, "this is its name") for each in exact]
        asked = read_query(query, self._vocabulary)
        scorer = Scorer(asked, self._vocabulary)
        scored = (
            (-score, each)
            for each in self._worth_scoring(asked, known, limit)
            if each not in exact and (score := scorer.score(self._documents[each][1])) > 0
        )
        for score, each in nsmallest(limit - len(found), scored):
            found.append(Found(each, round(-score, 4), scorer.reason(self._documents[each][1])))
        return found

    def _worth_scoring(self, asked: tuple[Asked, ...], known: Collection[ToolId], limit: int) -> Iterator[ToolId]:
        """Give the tools that may be among the best; looks further as long as too few of them may be known."""
        if self._candidates is None or len(known) <= FEW:
            yield from (each for each in known if each in self._documents)
            return
        words = [answer for each in asked for answer in each.answers]
        wanted, seen, given = max(BROUGHT, 2 * limit), 0, 0
        ahead = wanted
        while words and given < wanted:
            numbers = self._candidates.best(words, ahead)
            for number in numbers[seen:]:
                if self._numbered[number] in known:
                    given += 1
                    yield self._numbered[number]
            if len(numbers) < ahead:
                return
            seen, ahead = ahead, ahead * 8
