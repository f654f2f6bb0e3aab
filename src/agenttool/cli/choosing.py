"""Which of the open questions somebody wants to see: a page at a time, so that a hundred thousand are no burden."""

from collections import deque
from collections.abc import AsyncIterator
from dataclasses import dataclass

from agenttool.assemble import Runtime
from agenttool.codec import json_bytes
from agenttool.policy.approvals import Question
from agenttool.policy.wildcards import fits
from agenttool.records import ApprovalId, JsonObject, Timestamp

PAGE = 500
"""How many questions are read at a time."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Choice:
    """What is wanted of the questions, and how many.

    Attributes:
        tool: the name of a tool, in which `*` is any run of characters.
        containing: words that stand in the input as it is shown, in whatever case.
        after: the last question that was seen.
        limit: how many at most.
        is_newest: the newest come first, not the oldest.
    """

    tool: str | None = None
    containing: str | None = None
    after: ApprovalId | None = None
    limit: int | None = None
    is_newest: bool = False

    def wants(self, question: Question) -> bool:
        """Tell whether a question is one of them."""
        name = question.tool_name
        if self.tool is not None and not any(fits(self.tool, each) for each in (name, name.rpartition(".")[2])):
            return False
        return self.containing is None or self.containing.lower() in json_bytes(question.shown).decode().lower()

    async def among(self, rt: Runtime) -> AsyncIterator[Question]:
        """Give the chosen questions of every process on a store."""
        if self.is_newest:
            newest: deque[Question] = deque(maxlen=self.limit)
            async for question in self._all(rt):
                newest.append(question)
            while newest:
                yield newest.pop()
            return
        left = self.limit
        async for question in self._all(rt):
            if left == 0:
                return
            yield question
            left = None if left is None else left - 1

    async def count(self, rt: Runtime) -> dict[str, "Waiting"]:
        """Count the chosen questions by tool, those that are most first."""
        found: dict[str, Waiting] = {}
        async for question in self._all(rt):
            found.setdefault(question.tool_name, Waiting(question)).add(question)
        return dict(sorted(found.items(), key=lambda each: -each[1].count))

    async def _all(self, rt: Runtime) -> AsyncIterator[Question]:
        after = self.after
        while page := await rt.approvals(limit=PAGE, after=after):
            for question in page:
                if self.wants(question):
                    yield question
            after = page[-1].approval_id


class Waiting:
    """How many questions of a tool wait, since when, and how long there is time to answer the first of them."""

    def __init__(self, question: Question) -> None:
        """Begin with the oldest question, which is not counted yet."""
        self.count = 0
        self.oldest: Question = question
        self.expires_at: Timestamp = question.expires_at

    def add(self, question: Question) -> None:
        """Count one more."""
        self.count += 1
        self.expires_at = min(self.expires_at, question.expires_at)

    def told(self, tool_name: str) -> JsonObject:
        """Write it down for a program."""
        return {
            "tool_name": tool_name,
            "waiting": self.count,
            "oldest": self.oldest.approval_id,
            "asked_at": self.oldest.asked_at,
            "expires_at": self.expires_at,
        }
