"""The evidence of which a journal holds most: the start and the end of plain calls.

A durable log keeps it in so few words (`Brief`) that all else, such as ids and digests, is worked out when somebody
reads. It is told by the same lines whether it was kept or is still at hand.
"""

from collections.abc import Mapping
from typing import TypeAlias

from agenttool.codec import RawJson, digest_of_any
from agenttool.codec.moments import timestamp
from agenttool.ports.facts import Brief, Evidence, Fact, Telling, tell_in_parts
from agenttool.records import (
    UNSET,
    DecisionId,
    EventType,
    FunctionMapping,
    InvocationId,
    JsonObject,
    Part,
    PermissionDecision,
    Record,
    SchedulerPolicyId,
    SchedulingFacts,
    Timestamp,
    ToolResult,
    replace,
)


class Standing(Part, frozen=True, array_like=True, omit_defaults=False):
    """What all plain calls to a tool have in common: the decision as far as it is the same, and the tool's facts."""

    judged: PermissionDecision
    scheduler: SchedulingFacts


class Launch(Part, frozen=True, array_like=True, omit_defaults=False):
    """What is kept of the start of one plain call: what was asked for."""

    name: str
    model_input: JsonObject
    surface_id: str | None = None
    native_call_id: str | None = None
    actor_ref: str | None = None
    depends_on: tuple[InvocationId, ...] | None = None
    scheduler_policy_ref: SchedulerPolicyId | None = None
    mapping: FunctionMapping | None = None


class Launched(Part, frozen=True):
    """All of a plain call up to its start."""

    launch: Launch
    standing: Standing
    invocation_id: InvocationId

    @property
    def _decision_id(self) -> DecisionId:
        return DecisionId(f"dec_{self.invocation_id.partition('_')[2]}-1")

    def members(self, event: EventType) -> JsonObject:
        """Tell the name that was called, and the decision."""
        judged = self.standing.judged
        match event:
            case EventType.PLANNED:
                return {"name": self.launch.name}
            case EventType.PERMISSION_REQUESTED:
                return {"prompted": False, "decision_id": self._decision_id, "sealed": False}
            case EventType.PERMISSION_DECIDED:
                told: JsonObject = {"decision_id": self._decision_id, "behavior": judged.behavior.value}
                return {**told, "source": judged.source}
            case _:
                return {}

    def contributes(self) -> Mapping[str, object]:
        """Fill in who asked for what, what was judged, and the facts of the tool."""
        launch = self.launch
        fields = {
            "surface_id": launch.surface_id,
            "native_call_id": launch.native_call_id,
            "actor_ref": launch.actor_ref,
            "depends_on": launch.depends_on,
            "scheduler_policy_ref": launch.scheduler_policy_ref,
            "external_mappings": None if launch.mapping is None else (launch.mapping,),
            "policy_refs": self.standing.judged.policy_refs,
        }
        return {
            **{name: value for name, value in fields.items() if value is not None},
            "model_input": launch.model_input,
            "permission_decision_refs": (self._decision_id,),
            "permission_input": launch.model_input,
            "scheduler": self.standing.scheduler,
        }

    def records(self, fact: Fact) -> tuple[Record, ...]:
        """Tell the decision."""
        return (
            replace(
                self.standing.judged,
                decision_id=self._decision_id,
                invocation_id=self.invocation_id,
                input_digest=digest_of_any(self.launch.model_input),
                decided_at=timestamp(fact.at_ns),
            ),
        )

    def tell(self, fact: Fact) -> Brief:
        """Tell all of it in few words."""
        return Brief("launch", (self.launch,), self.standing)


_LINKS = ("policy_refs", "evidence_refs", "telemetry_refs", "artifact_refs")


def links_of(result: ToolResult) -> dict[str, object]:
    """Give what a call shares with its result: the refs to what other systems own (AT-INV-05)."""
    found = ((name, getattr(result, name)) for name in _LINKS)
    return {name: refs for name, refs in found if refs}


Said: TypeAlias = tuple[Timestamp, str] | tuple[Timestamp, str, bool] | tuple[Timestamp, None, RawJson]
"""What is kept of a plain result: when it was made, and its text; or its value as JSON, whose spelling is the text."""


def said(result: ToolResult) -> Said:
    """Say a `plain_result` in few words."""
    text = result.content[0].text or "" if result.content else ""
    structured = result.structured_content
    if structured is UNSET:
        return result.created_at, text
    if structured is text:
        return result.created_at, text, True
    return result.created_at, None, RawJson(text.encode())


class Ended(Part, frozen=True):
    """The one result of the call, and what became of the change it wanted to make to the shared context.

    `is_plain` says that it is a `plain_result`.
    """

    result: ToolResult
    context_modifiers: JsonObject | None = None
    is_plain: bool = False

    def members(self, event: EventType) -> JsonObject:
        """Tell the result's id and, of a failure, its class."""
        result = self.result
        told: JsonObject = {"result_id": result.result_id}
        if result.error is not None and event.is_terminal:
            told["error_class"] = result.error.error_class.value
            told["error_code"] = result.error.error_code
        if self.context_modifiers is not None and event.is_terminal:
            told["context_modifiers"] = self.context_modifiers
        return told

    def contributes(self) -> Mapping[str, object]:
        """Link what the result links."""
        return links_of(self.result)

    def records(self, fact: Fact) -> tuple[Record, ...]:
        """Tell the result."""
        return (self.result,)

    def tell(self, fact: Fact) -> Telling | Brief:
        """Tell all of it, in few words if the result is all."""
        if self.is_plain:
            return Brief("said", (said(self.result),))
        return Brief("end", (self.result,)) if self.context_modifiers is None else tell_in_parts(self, fact)


class Made(Ended, frozen=True):
    """A result that was made and has to wait for its turn to leave; the end of its call will tell it."""

    def contributes(self) -> Mapping[str, object]:
        """Link nothing that nobody has been given."""
        return {}

    def records(self, fact: Fact) -> tuple[Record, ...]:
        """Tell nothing that nobody has been given."""
        return ()

    def tell(self, fact: Fact) -> Brief:
        """Keep all of it: should its process die now, another one can let it go."""
        return Brief("made", (self.result, self.context_modifiers))


class Completed(Part, frozen=True):
    """All of a plain call whose tool never waited, from what was asked for to its result."""

    launched: Evidence
    result: ToolResult
    started_ns: int
    is_plain: bool = False

    def members(self, event: EventType) -> JsonObject:
        """Tell what the start and the end tell."""
        return Ended(self.result).members(event) if event in _OF_THE_END else self.launched.members(event)

    def contributes(self) -> Mapping[str, object]:
        """Fill in what the start fills in, when it was, and what the result links."""
        return {**self.launched.contributes(), "started_at": timestamp(self.started_ns), **links_of(self.result)}

    def records(self, fact: Fact) -> tuple[Record, ...]:
        """Tell the decision and the result."""
        return (*self.launched.records(fact), self.result)

    def tell(self, fact: Fact) -> Telling | Brief:
        """Tell all of it in few words, if the start can be."""
        start = self.launched.tell(fact)
        if not isinstance(start, Brief):
            return tell_in_parts(self, fact)
        if self.is_plain:
            return Brief("done", (*start.words, said(self.result), self.started_ns), start.standing)
        return Brief("call", (*start.words, self.result, self.started_ns), start.standing)


_OF_THE_END = frozenset({EventType.RESULT_CREATED, EventType.YIELDED, EventType.SUCCEEDED})
