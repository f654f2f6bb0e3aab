"""What can be wrong besides the chain: a fact's digests, a second result, and what is kept of calls under way."""

from collections.abc import Callable, Iterator
from typing import cast

from agenttool.cli.journal.payloads import PayloadWalk
from agenttool.codec import digest_of_any
from agenttool.errors import RecordError, StoreError
from agenttool.journal import steps
from agenttool.journal.fold import records_of
from agenttool.pipeline.bound_answer import is_forged
from agenttool.pipeline.faithful import misplaced, unfaithful
from agenttool.pipeline.held import read_held
from agenttool.ports.facts import Fact
from agenttool.ports.stores import Flaw
from agenttool.records import UNSET, Behavior, EventType, Json, PermissionDecision, Record, ToolResult
from agenttool.stores.payload_check import digests_in
from agenttool.stores.sqlite.reader import SqliteReader

_PLAIN = tuple(step for step in steps.STEPS.values() if step.told[: len(steps.LAUNCHED.told)] == steps.LAUNCHED.told)
"""The steps of calls to tools that have no sensitive fields."""


class Inspector:
    """Looks at each fact once, in order, and counts what it saw.

    Attributes:
        facts: how many facts there were.
        calls: how many of them began a call.
        ended: how many ended one.
        digests: how many digests of inputs were checked.
        sealed: how many could not be, because the tool has sensitive fields.
        payloads: what was seen of stored bytes.
    """

    def __init__(self, reader: SqliteReader, payloads: PayloadWalk, on_fact: Callable[[], None]) -> None:
        """Take where to look other facts of a call up, and stored bytes; and whom to tell that a fact was looked at."""
        self.payloads = payloads
        self.facts = self.calls = self.ended = self.digests = self.sealed = 0
        self._reader = reader
        self._on_fact = on_fact

    def look(self, position: int, fact: Fact) -> Iterator[Flaw]:
        """Tell what is wrong with one fact."""
        self.facts += 1
        self._on_fact()
        if fact.invocation_id is None:
            return
        if fact.sequence == 0:
            self.calls += 1
            if not self._reader.begins(fact.invocation_id, position):
                found = f"{fact.invocation_id} began before"
                yield Flaw(position=position, what="call", expected="a call that is new", found=found)
        records = () if fact.data is None or isinstance(fact.data, dict) else fact.data.records(fact)
        yield from self._check_results(position, fact, records)
        for digest in digests_in(records):
            yield from self.payloads.look(position, digest)
        for record in records:
            if isinstance(record, PermissionDecision) and record.input_digest is not None:
                check = self._check_judged if record.answers is None else self._check_answer
                yield from check(position, fact, record)

    def look_at_open(self, position: int) -> Iterator[Flaw]:
        """Tell what is kept of calls under way and is not what the log tells of them."""
        for opened in self._reader.open_calls():
            call = opened.invocation_id
            try:
                held, facts = read_held(opened.body), [fact for _, fact in self._reader.facts_of(call)]
                what = unfaithful(opened.kind, held, facts) or misplaced(opened, held, facts)
                what = what or ("answer" if is_forged(self._reader.read, opened) else None)
                found = None if what is None else f"another {what}"
            except (RecordError, StoreError) as error:
                found = str(error)
            if found is not None:
                yield Flaw(position=position, what="kept call", expected=f"what the log tells of {call}", found=found)

    def _check_results(self, position: int, fact: Fact, records: tuple[Record, ...]) -> Iterator[Flaw]:
        """Look for results where none belongs; that an end has one is seen by whoever walks the chain."""
        results = sum(isinstance(record, ToolResult) for record in records)
        is_end = fact.step.last is not None and fact.step.last.is_terminal
        self.ended += is_end
        if results > is_end:
            told = f"{int(is_end)}, at its end" if is_end else "none before its end"
            yield Flaw(position=position, what="result", expected=told, found=str(results))

    def _check_judged(self, position: int, fact: Fact, decision: PermissionDecision) -> Iterator[Flaw]:
        """Compute the digest of what was judged.

        That of a call to a tool with sensitive fields is sealed, and nobody can compute it from the journal; the fact
        says so. Facts of earlier versions do not, unless the call was plain: of those, one that does not fit may be.
        """
        if fact.data is None or isinstance(fact.data, dict):
            return
        expected = digest_of_any(cast("Json", fact.data.contributes().get("permission_input")))
        is_sealed = fact.data.members(EventType.PERMISSION_REQUESTED).get("sealed", fact.step not in _PLAIN)
        if expected == decision.input_digest:
            self.digests += 1
        elif not is_sealed:
            yield Flaw(position=position, what="digest", expected=expected, found=str(decision.input_digest))
        else:
            self.sealed += 1

    def _check_answer(self, position: int, fact: Fact, answer: PermissionDecision) -> Iterator[Flaw]:
        """See that what was allowed is what was asked about; an edit is about an input of its own."""
        if answer.behavior is not Behavior.ALLOW or answer.updated_input is not UNSET or fact.invocation_id is None:
            return
        told = records_of(each for _, each in self._reader.facts_of(fact.invocation_id))
        asked = [each for each in told if isinstance(each, PermissionDecision) and each.decision_id == answer.answers]
        self.digests += 1
        for question in asked:
            if question.input_digest != answer.input_digest:
                expected, found = str(question.input_digest), str(answer.input_digest)
                yield Flaw(position=position, what="digest", expected=expected, found=found)
