"""What can be wrong with a fact besides its place in the chain: its digests, and that a call has one result."""

from collections.abc import Callable, Iterator

from agenttool.codec import digest_of_any
from agenttool.errors import RecordError
from agenttool.policy.pointers import texts_in
from agenttool.ports.facts import Fact
from agenttool.ports.stores import Flaw
from agenttool.records import InvocationId, InvocationStatus, Json, PermissionDecision, Record, ToolResult
from agenttool.results.redaction import MARKER


class Inspector:
    """Looks at each fact once, in order, and counts what it saw.

    Attributes:
        facts: how many facts there were.
        calls: how many of them began a call.
        ended: how many ended one.
        digests: how many digests of inputs were computed anew.
        hidden: how many could not be, because something sensitive was taken out of the input.
    """

    def __init__(self, begins: Callable[[InvocationId, int], bool], on_fact: Callable[[], None]) -> None:
        """Take who tells whether a fact is the first of its call, and whom to tell that another was looked at."""
        self.facts = self.calls = self.ended = self.digests = self.hidden = 0
        self._begins = begins
        self._on_fact = on_fact

    def look(self, position: int, fact: Fact) -> Iterator[Flaw]:
        """Tell what is wrong with one fact."""
        self.facts += 1
        self._on_fact()
        if fact.invocation_id is None:
            return
        if fact.sequence == 0:
            self.calls += 1
            if not self._begins(fact.invocation_id, position):
                found = f"{fact.invocation_id} began before"
                yield Flaw(position=position, what="call", expected="a call that is new", found=found)
        records = () if fact.data is None or isinstance(fact.data, dict) else fact.data.records(fact)
        yield from self._check_results(position, fact, records)
        for record in records:
            if isinstance(record, PermissionDecision) and record.input_digest is not None:
                yield from self._check_digest(position, fact, record)

    def _check_results(self, position: int, fact: Fact, records: tuple[Record, ...]) -> Iterator[Flaw]:
        """Look for results where none belongs; that an end has one is seen by whoever walks the chain."""
        results = sum(isinstance(record, ToolResult) for record in records)
        is_end = fact.step.last is not None and InvocationStatus(fact.step.last).is_terminal
        self.ended += is_end
        if results > is_end:
            told = f"{int(is_end)}, at its end" if is_end else "none before its end"
            yield Flaw(position=position, what="result", expected=told, found=str(results))

    def _check_digest(self, position: int, fact: Fact, decision: PermissionDecision) -> Iterator[Flaw]:
        """Compute the digest of what was judged, if it is written beside the decision as it was."""
        if fact.data is None or isinstance(fact.data, dict):
            return
        judged = fact.data.contributes().get("permission_input")
        if judged is None:
            return
        if any(MARKER in text for text in texts_in(judged)):  # pyright: ignore[reportArgumentType] -- read from JSON
            self.hidden += 1
            return
        self.digests += 1
        expected = _digest(judged)  # pyright: ignore[reportArgumentType] -- likewise
        if expected != decision.input_digest:
            yield Flaw(position=position, what="digest", expected=expected, found=str(decision.input_digest))


def _digest(value: Json) -> str:
    try:
        return digest_of_any(value)
    except RecordError as error:
        return str(error)
