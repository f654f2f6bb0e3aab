"""The tools of a catalog, ready to be searched; one tool more or less costs only that tool."""

from collections import deque
from collections.abc import Collection, Container, Iterator, Mapping, Sequence
from dataclasses import dataclass
from heapq import nlargest
from itertools import chain
from math import hypot
from operator import itemgetter

from agenttool.catalog.catalog import Entry
from agenttool.catalog.search.document import told_in_words
from agenttool.catalog.search.fusion import fused, wish_by_wish
from agenttool.catalog.search.names import Names, primary
from agenttool.catalog.search.query import Asked, read_query, telling_sentences
from agenttool.catalog.search.score import Scorer
from agenttool.catalog.search.sentences import sentences_of
from agenttool.catalog.search.shelf import FEW, Shelf
from agenttool.catalog.search.turns import in_turns
from agenttool.catalog.search.words import is_identifier
from agenttool.ports.meaning import Meaning
from agenttool.records import ToolId

BROUGHT, FOR_A_WORD, MOST_BROUGHT = 48, 16, 128
"""How many tools of a large catalog are scored: at least, for each word, and at most; more words are in more tools."""

NEAREST = 64
"""How many tools are scored for their meaning."""

BRINGING = 32
"""How many words bring them."""

WISHES, FOR_EACH = 6, 32
"""Of so many sentences each brings so many tools of its own, for another may have louder words."""

MOST_READ = 20_000
"""So many letters of a query are read, some pages; what a wish is comes before that, and others wait meanwhile."""

LEAST = 0.0001
"""What is found has a score, however little it answers."""


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

    def __init__(self, meaning: Meaning | None = None) -> None:
        """Begin with nothing; with a model, what tools mean counts beside their words."""
        self.meaning = meaning
        self._names = Names()
        self._numbers: dict[ToolId, int] = {}
        self._entries: list[Entry | None] = []
        self._ids: list[ToolId | None] = []
        self._free: list[int] = []
        self._waiting: deque[int] = deque()
        self._is_waiting = bytearray()
        self._shelf = Shelf()

    def put(self, entry: Entry) -> None:
        """Add a tool, or replace the one with the same id."""
        tool_id = entry.tool_id
        if tool_id in self._numbers:
            self.remove(tool_id)
        if self._free:
            number = self._free.pop()
            self._entries[number], self._ids[number] = entry, tool_id
        else:
            number = len(self._entries)
            self._entries.append(entry)
            self._ids.append(tool_id)
            self._is_waiting.append(False)
        self._numbers[tool_id] = number
        if not self._is_waiting[number]:  # one that changes again and again until somebody searches waits once
            self._is_waiting[number] = True
            self._waiting.append(number)
        self._names.add(entry)

    def remove(self, tool_id: ToolId) -> None:
        """Forget a tool, if it is there."""
        number = self._numbers.pop(tool_id, None)
        if number is None:
            return
        entry, self._entries[number], self._ids[number] = self._entries[number], None, None
        if entry is not None:
            self._names.remove(entry)
        self._shelf.remove(number)
        if self.meaning is not None:
            self.meaning.remove(number)
        self._free.append(number)

    def catch_up(self, tools: int) -> bool:
        """Read at most so many tools that were added since; tell whether more are waiting."""
        new: dict[int, Entry] = {}
        for _ in range(min(tools, len(self._waiting))):
            number = self._waiting.popleft()
            self._is_waiting[number] = False
            entry = self._entries[number]
            if entry is not None:  # it may have gone since
                new[number] = entry
        if new:
            self._shelf.put(new)
        if self.meaning is not None:
            for number, entry in new.items():
                self.meaning.put(number, told_in_words(entry))
        self._shelf.settle()
        return bool(self._waiting)

    @property
    def is_being_read(self) -> bool:
        """Tell whether a model is still reading tools, so that some are found by words alone."""
        return self.meaning is not None and self.meaning.pending

    def named(self, name: str, known: Container[ToolId]) -> tuple[ToolId, ...]:
        """Find tools by an exact name of theirs: qualified, bare, alias or id; what comes first hides what follows."""
        owners = primary(name, [each for each in self._names.find(name) if each.tool_id in known])
        tool_id = ToolId(name)
        is_id = not owners and tool_id in self._numbers and tool_id in known
        return (tool_id,) if is_id else tuple(each.tool_id for each in owners)

    def find(self, query: str, known: Collection[ToolId], limit: int, *, heard: Sequence[str] = ()) -> list[Found]:
        """Find the tools that answer a query best, also by the meaning of what was heard of it.

        One that is named exactly comes first.
        """
        query, limit = query[:MOST_READ], min(limit, len(known))  # room is made for as many as are asked for
        exact = self._named_in(query, known)[:limit]
        found = [Found(each, 1.0, "this is its name") for each in exact]
        documents = self._shelf.documents
        read = read_query(query, self._shelf)
        scorer = Scorer(read, self._shelf)
        worth = set(self._worth_scoring(read.asked, known, limit))
        opinions = {each: scorer.opinions(documents[each]) for each in worth}
        meanings = self._meanings(heard, known, scorer, opinions)
        scores = fused({each: hypot(*mine) for each, mine in opinions.items()}, meanings)
        ids = self._ids
        ranked = [(-score, tool_id, each) for each, score in scores.items() if score and (tool_id := ids[each])]
        if len(read.deeds) > 1:
            best = in_turns(ranked, wish_by_wish(opinions, _by_sentence(query, heard, meanings)))
        else:
            best = sorted(ranked)
        for score, tool_id, each in best:
            if len(found) >= limit:
                break
            if tool_id not in exact:
                reason = scorer.reason(documents[each]) or "it means much the same"
                found.append(Found(tool_id, max(LEAST, round(-score, 4)), reason))
        return found

    def _named_in(self, query: str, known: Container[ToolId]) -> tuple[ToolId, ...]:
        """Find the tools that a query is the name of, or whose identifiers it mentions among other words."""
        whole = self.named(query.strip(), known)
        if whole:
            return whole
        mentioned = (word.strip(".,;:!?\"'`()") for word in query.split())
        return tuple(
            dict.fromkeys(each for word in mentioned if is_identifier(word) for each in self.named(word, known))
        )

    def listen(self, query: str) -> Sequence[str]:
        """Give the sentences of a query that mean something to a model; it thinks a while, so not in the event loop."""
        sentences = telling_sentences(query[:MOST_READ]) if self.meaning is not None else []
        return sentences if self.meaning is not None and self.meaning.listen(sentences) else ()

    def _meanings(
        self, heard: Sequence[str], known: Container[ToolId], scorer: Scorer, opinions: dict[int, list[float]]
    ) -> list[Mapping[int, float]]:
        """Compare tools with each sentence that was heard, and add those that no word brought to the opinions."""
        if self.meaning is None or not heard:
            return []
        wanted = NEAREST // len(heard)
        for each in chain.from_iterable(self._near(self.meaning, sentence, known, wanted) for sentence in heard):
            if each not in opinions:
                opinions[each] = scorer.opinions(self._shelf.documents[each])
        return [self.meaning.likeness(sentence, opinions) for sentence in heard]

    def _near(self, meaning: Meaning, sentence: str, known: Container[ToolId], wanted: int) -> list[int]:
        """Give the nearest tools that may be known, and look further as long as they are too few."""
        ahead, ids = wanted, self._ids
        while True:
            near = meaning.nearest(sentence, ahead)
            found = [each for each in near if (tool_id := ids[each]) is not None and tool_id in known]
            if len(found) >= wanted or len(near) < ahead:
                return found[:wanted]
            ahead *= 8

    def _worth_scoring(self, asked: tuple[Asked, ...], known: Collection[ToolId], limit: int) -> Iterator[int]:
        """Give the tools that may be among the best; looks further as long as too few of them may be known."""
        candidates = self._shelf.candidates
        if candidates is None or len(known) <= FEW:
            numbers = (self._numbers.get(each) for each in known)
            yield from (each for each in numbers if each is not None and self._shelf.has(each))
            return
        signs = _loudest(asked)
        ids, documents = self._ids, self._shelf.documents

        def may_know(numbers: Sequence[int]) -> list[int]:
            # one that is removed may still be brought, and its number be another's
            return [each for each in numbers if documents[each] and ids[each] in known]

        yield from may_know(candidates.fresh(signs))
        wanted, seen, given = max(BROUGHT, min(MOST_BROUGHT, FOR_A_WORD * len(asked)), 2 * limit), 0, 0
        ahead = wanted
        while signs and given < wanted:
            brought = candidates.best(signs, ahead)
            fitting = may_know(brought[seen:])[: wanted - given]
            given += len(fitting)
            yield from fitting
            if len(brought) < ahead:
                break
            seen, ahead = ahead, ahead * 8
        for wish in _wishes(asked):
            yield from may_know(candidates.best(_loudest(wish), FOR_EACH))


def _by_sentence(
    query: str, heard: Sequence[str], meanings: Sequence[Mapping[int, float]]
) -> dict[int, Mapping[int, float]]:
    """Give the meanings by the numbers of their sentences; a query that was heard as a whole has none."""
    numbers = {sentence: at for at, sentence in enumerate(sentences_of(query))} if meanings else {}
    heard_and_meant = zip(heard, meanings, strict=False)  # a model that is gone means nothing
    return {numbers[sentence]: each for sentence, each in heard_and_meant if sentence in numbers}


def _wishes(asked: Sequence[Asked]) -> list[list[Asked]]:
    """Give the words of each sentence that tells most, if there are several."""
    by_sentence: dict[int, list[Asked]] = {}
    for each in asked:
        for sentence in each.sentences:
            by_sentence.setdefault(sentence, []).append(each)
    if len(by_sentence) == 1:
        return []
    return nlargest(WISHES, by_sentence.values(), key=lambda words: sum(each.weight for each in words))


def _loudest(asked: Sequence[Asked]) -> list[tuple[str, float]]:
    """Give the signs that tell most, each with how loud it was said."""
    answers = [(each.weight * answer.likeness, each, answer) for each in asked for answer in each.answers]
    loudest = nlargest(BRINGING, answers, key=itemgetter(0))
    return [(answer.sign, each.loudness * answer.likeness) for _, each, answer in loudest]
