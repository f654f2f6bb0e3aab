"""The tools of a catalog, ready to be searched; one tool more or less costs only that tool."""

from collections import deque
from collections.abc import Collection, Container, Iterator
from dataclasses import dataclass
from heapq import nlargest, nsmallest
from operator import itemgetter

from agenttool.catalog.catalog import Entry
from agenttool.catalog.search.document import Document
from agenttool.catalog.search.names import Names
from agenttool.catalog.search.query import Asked, read_query
from agenttool.catalog.search.score import Scorer
from agenttool.catalog.search.shelf import FEW, Shelf
from agenttool.records import ToolId

BROUGHT = 100
"""How many tools of a large catalog are scored, at least."""

BRINGING = 32
"""How many words bring them."""


@dataclass(frozen=True, slots=True)
class Found:
    """One tool that answers a query, how well, and why."""

    tool_id: ToolId
    score: float
    reason: str


class Index:
    """Names and words of tools. Adding is cheap; the work is done by `catch_up`, in steps as small as one likes.

    A tool has a number for as long as it is there.
    """

    def __init__(self) -> None:
        """Begin with nothing."""
        self._names = Names()
        self._numbers: dict[ToolId, int] = {}
        self._entries: list[Entry | None] = []
        self._free: list[int] = []
        self._waiting: deque[int] = deque()
        self._shelf = Shelf()

    def put(self, entry: Entry) -> None:
        """Add a tool, or replace the one with the same id."""
        self.remove(entry.tool_id)
        if self._free:
            number = self._free.pop()
            self._entries[number] = entry
        else:
            number = len(self._entries)
            self._entries.append(entry)
        self._numbers[entry.tool_id] = number
        self._waiting.append(number)
        self._names.add(entry)

    def remove(self, tool_id: ToolId) -> None:
        """Forget a tool, if it is there."""
        number = self._numbers.pop(tool_id, None)
        if number is None:
            return
        entry, self._entries[number] = self._entries[number], None
        if entry is not None:
            self._names.remove(entry)
        self._shelf.remove(number)
        self._free.append(number)

    def catch_up(self, tools: int) -> bool:
        """Read at most so many tools that were added since; tell whether more are waiting."""
        for _ in range(min(tools, len(self._waiting))):
            number = self._waiting.popleft()
            entry = self._entries[number]
            if entry is not None and number not in self._shelf:  # it may have gone since, or wait twice
                self._shelf.put(number, entry)
        self._shelf.settle()
        return bool(self._waiting)

    def named(self, name: str, known: Container[ToolId]) -> tuple[ToolId, ...]:
        """Find tools by an exact name of theirs: qualified, bare, alias or id."""
        by_id = self._numbers.get(ToolId(name))
        owners = (self._entries[by_id],) if by_id is not None else self._names.find(name)
        return tuple(each.tool_id for each in owners if each is not None and each.tool_id in known)

    def find(self, query: str, known: Collection[ToolId], limit: int) -> list[Found]:
        """Find the tools that answer a query best; one that is named exactly comes first."""
        exact = self.named(query.strip(), known)[:limit]
        found = [Found(each, 1.0, "this is its name") for each in exact]
        asked = read_query(query, self._shelf)
        scorer = Scorer(asked, self._shelf)
        scored = (
            (-score, tool_id, document)
            for tool_id, document in self._worth_scoring(asked, known, limit)
            if tool_id not in exact and (score := scorer.score(document)) > 0
        )
        for score, tool_id, document in nsmallest(limit - len(found), scored):
            found.append(Found(tool_id, round(-score, 4), scorer.reason(document)))
        return found

    def _worth_scoring(
        self, asked: tuple[Asked, ...], known: Collection[ToolId], limit: int
    ) -> Iterator[tuple[ToolId, Document]]:
        """Give the tools that may be among the best; looks further as long as too few of them may be known."""
        candidates = self._shelf.candidates
        if candidates is None or len(known) <= FEW:
            numbers = ((each, self._numbers.get(each)) for each in known)
            yield from ((each, self._shelf[at]) for each, at in numbers if at is not None and at in self._shelf)
            return
        signs = _loudest(asked)
        wanted, seen, given = max(BROUGHT, 2 * limit), 0, 0
        ahead = wanted
        while signs and given < wanted:
            brought = candidates.best(signs, ahead)
            for number in brought[seen:]:
                entry = self._entries[number]
                if entry is not None and entry.tool_id in known:
                    given += 1
                    yield entry.tool_id, self._shelf[number]
            if len(brought) < ahead:
                return
            seen, ahead = ahead, ahead * 8


def _loudest(asked: tuple[Asked, ...]) -> list[tuple[str, float]]:
    """Give the signs that tell most, each with how loud it was said."""
    answers = [(each.weight * answer.likeness, each, answer) for each in asked for answer in each.answers]
    loudest = nlargest(BRINGING, answers, key=itemgetter(0))
    return [(answer.sign, each.loudness * answer.likeness) for _, each, answer in loudest]
