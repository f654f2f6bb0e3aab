"""What the facts of a call rest on once it is scheduled: its turn, its signs of life, and what came of it."""

from collections.abc import Mapping
from typing import cast

from agenttool.codec import parse_object, read, sorted_json
from agenttool.codec.moments import timestamp
from agenttool.errors import RecordError
from agenttool.journal.evidence import Plain
from agenttool.pipeline.evidence import Launched
from agenttool.ports.evidence import Ended, links_of, said
from agenttool.ports.facts import Brief, Fact
from agenttool.records import (
    Cancellation,
    EventType,
    ExternalMapping,
    InputMutation,
    InvocationId,
    Json,
    JsonObject,
    MutationId,
    MutationSource,
    NativeMapping,
    ProgressId,
    ProgressStatus,
    Record,
    ResultPersistence,
    SchedulerPolicy,
    SchedulingFacts,
    Timestamp,
    ToolInvocation,
    ToolProgress,
    ToolResult,
)
from agenttool.results.redaction import Scrubber


class BatchPlanned(Plain, frozen=True):
    """The policy under which several calls were made; it is about all of them, so about none."""

    policy: SchedulerPolicy

    def records(self, fact: Fact) -> tuple[Record, ...]:
        """Tell the policy."""
        return (self.policy,)


class Scheduled(Plain, frozen=True):
    """The seven facts by which a call was given its turn (AT-SCHED-07)."""

    facts: SchedulingFacts

    def contributes(self) -> Mapping[str, object]:
        """Fill in the facts; where the call stands is known from its status."""
        return {"scheduler": self.facts}


class Progressed(Plain, frozen=True):
    """How far the work is; a message is scrubbed before it gets here."""

    number: int
    status: ProgressStatus
    message: str | None = None
    percent: float | None = None
    step: str | None = None
    elapsed_ms: int | None = None
    facts: JsonObject | None = None
    partial_result_refs: tuple[str, ...] | None = None

    def members(self, event: EventType) -> JsonObject:
        """Tell what was reported."""
        said = {"progress": self.number, "message": self.message, "percent": self.percent, "step": self.step}
        return {name: value for name, value in said.items() if value is not None}

    def contributes(self) -> Mapping[str, object]:
        """Link the task that does the work elsewhere, if there is one."""
        task = (self.facts or {}).get("task_id")
        return {} if task is None else {"runtime_refs": (task,)}

    def records(self, fact: Fact) -> tuple[Record, ...]:
        """Tell the update."""
        return (self.told(cast("InvocationId", fact.invocation_id), timestamp(fact.at_ns)),)

    def told(self, invocation_id: InvocationId, at: Timestamp) -> ToolProgress:
        """Give the update as a record."""
        return ToolProgress(
            progress_id=ProgressId(f"prg_{invocation_id.partition('_')[2]}-{self.number}"),
            invocation_id=invocation_id,
            sequence=self.number,
            status=self.status,
            message=self.message,
            percent=self.percent,
            current_step=self.step,
            elapsed_ms=self.elapsed_ms,
            partial_result_refs=self.partial_result_refs,
            timestamp=at,
            **(self.facts or {}),  # pyright: ignore[reportArgumentType] -- counters that the record has fields for
        )


_COUNTERS = frozenset(
    """
    current_step_index total_steps timeout_ms bytes_read bytes_written stdout_bytes stderr_bytes line_count exit_code
    """.split()  # noqa: SIM905 -- a list of words reads best as words
)
_MOST = 2**63


def counters(facts: Mapping[str, int | str], scrubber: Scrubber | None) -> JsonObject:
    """Take what a tool counted, as far as an update has a place for it; one odd count must not spoil the record."""
    found: JsonObject = {
        name: value for name, value in facts.items() if name in _COUNTERS and type(value) is int and abs(value) < _MOST
    }
    task = facts.get("task_id")
    if isinstance(task, str):
        found["task_id"] = scrubber.text(task) if scrubber else task
    return found


class NativeIds(Plain, frozen=True):
    """Ids under which the native side knows this run (G-64)."""

    mapping: ExternalMapping

    def contributes(self) -> Mapping[str, object]:
        """Add them to the mappings of the call."""
        return {"external_mappings": (self.mapping,)}


def native_ids(source: str, ids: JsonObject, scrubber: Scrubber | None) -> NativeIds:
    """Take ids as an adapter gives them, without the call's secrets.

    A tool has run by then, and must not fail because of its ids: such as do not fit their source are kept as text.
    """
    try:
        own: Json = {**ids, "source": source}
        if scrubber is not None:
            own = scrubber.value(parse_object(sorted_json(own)))
        call = read(sorted_json({**_ENVELOPE, "external_mappings": [own]}), ToolInvocation)
    except (RecordError, TypeError, ValueError):
        told = str(ids).encode(errors="replace").decode()
        return NativeIds(NativeMapping(native_id=told if scrubber is None else scrubber.text(told)))
    return NativeIds((call.external_mappings or (NativeMapping(),))[0])


_ENVELOPE: JsonObject = {"invocation_id": "", "tool_id": "", "status": "running", "created_at": ""}
"""What an invocation needs before its mappings can be read as what they are."""


class CancelTold(Plain, frozen=True):
    """What is known of a cancellation at this moment."""

    cancellation: Cancellation

    def members(self, event: EventType) -> JsonObject:
        """Tell why, and what became of it if that is known."""
        told = {"abort_reason": self.cancellation.abort_reason, "message": self.cancellation.message}
        return {name: str(value) for name, value in told.items() if value is not None}

    def contributes(self) -> Mapping[str, object]:
        """Fill in the four facts."""
        return {"cancellation": self.cancellation}


class OutputReplaced(Plain, frozen=True):
    """A hook replaced the output of the tool; the one before is named and not kept, for it may have been hidden."""

    hook_name: str

    def records(self, fact: Fact) -> tuple[Record, ...]:
        """Tell the change, as a mutation between two outputs (G-28)."""
        invocation_id = cast("InvocationId", fact.invocation_id)
        return (
            InputMutation(
                mutation_id=MutationId(f"mut_{invocation_id.partition('_')[2]}-output"),
                invocation_id=invocation_id,
                source_type=MutationSource.HOOK,
                source_ref=self.hook_name,
                from_output_ref=f"{invocation_id}#native_output",
                to_output_ref=f"{invocation_id}#updated_output",
                created_at=timestamp(fact.at_ns),
            ),
        )


class Stored(Plain, frozen=True):
    """Where the bytes of the result went."""

    decision: ResultPersistence

    def members(self, event: EventType) -> JsonObject:
        """Tell the decision, and whose bytes it is about."""
        decision = self.decision
        return {
            "decision_id": decision.decision_id,
            "result_id": decision.result_id,
            "strategy": decision.strategy.value,
        }

    def records(self, fact: Fact) -> tuple[Record, ...]:
        """Tell the decision."""
        return (self.decision,)


class Completed(Launched, frozen=True):
    """All of a plain call whose tool never waited, from what was asked for to its result."""

    result: ToolResult
    started_ns: int
    is_plain: bool = False

    def members(self, event: EventType) -> JsonObject:
        """Tell what the start and the end tell."""
        return Ended(self.result).members(event) if event in _OF_THE_END else super().members(event)

    def contributes(self) -> Mapping[str, object]:
        """Fill in what the start fills in, when it was, and what the result links."""
        return {**super().contributes(), "started_at": timestamp(self.started_ns), **links_of(self.result)}

    def records(self, fact: Fact) -> tuple[Record, ...]:
        """Tell the decision and the result."""
        return (*super().records(fact), self.result)

    def tell(self, fact: Fact) -> Brief:
        """Tell all of it in few words."""
        start = super().tell(fact)
        if self.is_plain:
            return Brief("done", (*start.words, said(self.result), self.started_ns), start.standing)
        return Brief("call", (*start.words, self.result, self.started_ns), start.standing)


_OF_THE_END = frozenset({EventType.RESULT_CREATED, EventType.YIELDED, EventType.SUCCEEDED})
