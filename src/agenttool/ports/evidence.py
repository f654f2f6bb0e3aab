"""The evidence of plain calls, which is most of a journal: what was requested, the start, and the result.

These classes have a compact form on disk. Ids, digests and timestamps that follow from the call are not written; they
are computed when the journal is read.
"""

import hmac
from collections.abc import Mapping
from typing import Protocol, TypeAlias

from agenttool.codec import RawJson, digest_of, digest_of_any, parse_object, sorted_json
from agenttool.codec.moments import timestamp
from agenttool.errors import RecordError
from agenttool.ports.facts import CompactFact, Evidence, Fact, ProjectedFact
from agenttool.records import (
    UNSET,
    DecisionId,
    Digest,
    EventType,
    FunctionMapping,
    InputMutation,
    InputStage,
    InvocationId,
    Json,
    JsonObject,
    MutationId,
    MutationSource,
    Part,
    PermissionDecision,
    Record,
    SchedulerPolicyId,
    SchedulingFacts,
    Timestamp,
    ToolResult,
    input_ref,
    replace,
)

REDACTED = "[redacted]"
"""Replaces a sensitive value in every record. It has no digest, because that of a short secret can be guessed."""


class Redacts(Protocol):
    """What evidence needs of a redactor."""

    def redact(self, value: Json) -> Json:
        """Return the value with every sensitive value replaced; the same object if there is none."""
        ...


def shown(value: bytes, redactor: Redacts | None) -> Json:
    """Return an input as a record may show it, with sensitive fields redacted.

    Input that is not a JSON object is returned as text, or as `REDACTED` if it might hold something sensitive.
    """
    try:
        members = parse_object(value)
    except RecordError:
        return REDACTED if redactor is not None else value.decode(errors="replace")
    return members if redactor is None else redactor.redact(members)


def input_digest(value: JsonObject, redactor: Redacts | None, key: bytes) -> Digest:
    """Return the digest of an input for records.

    If nothing in the input is redacted, it is the digest of the canonical JSON, which any reader can compute. Otherwise
    that digest would let a reader guess a short secret, so it is sealed with the key of the call. Within a call, equal
    inputs have equal digests either way.
    """
    return sealed_digest(value, key) if hides(redactor, value) else digest_of_any(value)


def hides(redactor: Redacts | None, value: Json) -> bool:
    """Return whether a redactor replaces something in a value."""
    return redactor is not None and redactor.redact(value) is not value


def sealed_digest(value: JsonObject, key: bytes) -> Digest:
    """Return the digest of an input that only a holder of the call's key can compute."""
    return digest_of({"seal": hmac.digest(key, sorted_json(value), "sha256").hex()})


def key_of(salt: bytes, model_input: bytes) -> bytes:
    """Return the key of one call, bound to its model input.

    The salt is stored with the raw inputs only and deleted with them; no record contains it. Each call has its own, so
    that two calls with the same secret cannot be recognized.
    """
    return hmac.digest(salt, model_input, "sha256")


class CallRequest(Evidence, frozen=True):
    """What the caller requested. The input stays in the bytes in which it arrived."""

    name: str
    model_input: bytes
    surface_id: str | None = None
    native_call_id: str | None = None
    actor_ref: str | None = None
    parent_invocation_id: InvocationId | None = None
    depends_on: tuple[InvocationId, ...] | None = None
    scheduler_policy_ref: SchedulerPolicyId | None = None
    redactor: Redacts | None = None
    mapping: FunctionMapping | None = None
    actor_roles: tuple[str, ...] | None = None

    def members(self, event: EventType) -> JsonObject:
        """Return the name that was called."""
        return {"name": self.name} if event is EventType.PLANNED else {}

    def contributes(self) -> Mapping[str, object]:
        """Return the caller's references and the model input."""
        given = {name: value for name in _REFERENCES if (value := getattr(self, name)) is not None}
        if self.mapping is not None:
            given["external_mappings"] = (self.mapping,)
        return {**given, "model_input": shown(self.model_input, self.redactor)}


_REFERENCES = (
    "surface_id",
    "native_call_id",
    "actor_ref",
    "actor_roles",
    "parent_invocation_id",
    "depends_on",
    "scheduler_policy_ref",
)


class InputNoted(Evidence, frozen=True):
    """One of the later inputs, and who changed it; without a source it is unchanged."""

    stages: tuple[InputStage, ...]
    value: bytes
    redactor: Redacts | None = None
    source_type: MutationSource | None = None
    source_ref: str | None = None
    from_stage: InputStage | None = None
    changed_fields: tuple[str, ...] = ()
    reason: str | None = None
    mutation_id: MutationId | None = None

    def contributes(self) -> Mapping[str, object]:
        """Return the input under each of its stages."""
        fields: dict[str, object] = {stage.value: shown(self.value, self.redactor) for stage in self.stages}
        return fields if self.mutation_id is None else {**fields, "input_mutation_refs": (self.mutation_id,)}

    def records(self, fact: Fact) -> tuple[Record, ...]:
        """Return the change, if it is one."""
        invocation_id = fact.invocation_id
        if self.mutation_id is None or self.source_type is None or self.from_stage is None or invocation_id is None:
            return ()
        return (
            InputMutation(
                mutation_id=self.mutation_id,
                invocation_id=invocation_id,
                source_type=self.source_type,
                source_ref=self.source_ref,
                from_input_ref=input_ref(invocation_id, self.from_stage),
                to_input_ref=input_ref(invocation_id, self.stages[0]),
                changed_fields=self.changed_fields,
                reason=self.reason,
                created_at=timestamp(fact.at_ns),
            ),
        )


_LATER_STAGES = (InputStage.OBSERVABLE_INPUT, InputStage.PERMISSION_INPUT, InputStage.CALL_INPUT)
_MODEL_INPUT = InputStage.MODEL_INPUT
_RUNTIME = MutationSource.RUNTIME


def change_by_runtime(
    unique: str,
    value: bytes,
    source_ref: str,
    changed_fields: tuple[str, ...],
    reason: str | None,
    redactor: Redacts | None = None,
) -> InputNoted:
    """Return the first change of an input, by defaults or normalization; `unique` is of the id of its call."""
    mutation_id: MutationId = f"mut_{unique}-1"  # pyright: ignore[reportAssignmentType] -- spares the call of a NewType
    return InputNoted(
        _LATER_STAGES, value, redactor, _RUNTIME, source_ref, _MODEL_INPUT, changed_fields, reason, mutation_id
    )


class SharedDecision(Part, frozen=True, array_like=True, omit_defaults=False, eq=False):
    """What all plain calls to a tool have in common: the decision without its ids and times, and the tool's facts.

    Each tool has one, which is compared by identity, so that its encoding is found quickly.
    """

    decision: PermissionDecision
    scheduler: SchedulingFacts


class CallLaunched(Evidence, frozen=True):
    """A plain call up to its start: requested, allowed by a standing rule, and running.

    Attributes:
        change: the change that filled in defaults or normalized the input, if there was one.
        salt: the key material that seals the digest of an input with sensitive fields; empty if it has none.
    """

    request: CallRequest
    shared: SharedDecision
    invocation_id: InvocationId
    change: InputNoted | None
    salt: bytes

    @property
    def _decision_id(self) -> DecisionId:
        return DecisionId(f"dec_{self.invocation_id.partition('_')[2]}-1")

    def members(self, event: EventType) -> JsonObject:
        """Return the name that was called, or the decision."""
        decision = self.shared.decision
        match event:
            case EventType.PERMISSION_REQUESTED:
                is_sealed = self.request.redactor is not None and hides(self.request.redactor, self._judged)
                asked: JsonObject = {"prompted": False, "decision_id": self._decision_id, "sealed": is_sealed}
                return {**asked, "salted": True} if is_sealed else asked
            case EventType.PERMISSION_DECIDED:
                decided: JsonObject = {"decision_id": self._decision_id, "behavior": decision.behavior.value}
                return {**decided, "source": decision.source}
            case _:
                return self.request.members(event)

    def contributes(self) -> Mapping[str, object]:
        """Return the request, its decision, and the scheduling facts of the tool."""
        requested = self.request.contributes()
        refs = self.shared.decision.policy_refs
        return {
            **requested,
            **({} if refs is None else {"policy_refs": refs}),
            "permission_decision_refs": (self._decision_id,),
            "permission_input": shown(self.request.model_input, self.request.redactor),
            **({} if self.change is None else self.change.contributes()),
            "scheduler": self.shared.scheduler,
        }

    def records(self, fact: Fact) -> tuple[Record, ...]:
        """Return the change of the input, if any, and the decision."""
        key = key_of(self.salt, self.request.model_input) if self.salt else b""
        return (
            *(() if self.change is None else self.change.records(fact)),
            replace(
                self.shared.decision,
                decision_id=self._decision_id,
                invocation_id=self.invocation_id,
                input_digest=input_digest(self._judged, self.request.redactor, key),
                decided_at=timestamp(fact.at_ns),
            ),
        )

    @property
    def _judged(self) -> JsonObject:
        return parse_object(self.request.model_input if self.change is None else self.change.value)

    @property
    def _is_compact(self) -> bool:
        """Whether the rest follows from the request, the change of its input, and the shared decision."""
        return not self.salt

    def compact(self, fact: Fact) -> CompactFact | ProjectedFact:
        """Return the request, the change and the shared decision, if they are all."""
        if not self._is_compact:
            return super().compact(fact)
        return CompactFact("launch", (self._request_words(), *self._change_words()), self.shared)

    def _request_words(self) -> tuple[object, ...]:
        asked = self.request
        return (
            asked.name,
            parse_object(asked.model_input),
            asked.surface_id,
            asked.native_call_id,
            asked.actor_ref,
            asked.depends_on,
            asked.scheduler_policy_ref,
            asked.mapping,
            asked.actor_roles,
        )

    def _change_words(self) -> tuple[object, ...]:
        change = self.change
        if change is None:
            return ()
        return ((RawJson(change.value), change.source_ref, change.changed_fields, change.reason),)


_LINKS = ("policy_refs", "evidence_refs", "telemetry_refs", "artifact_refs")


def links_of(result: ToolResult) -> dict[str, object]:
    """Return the refs to records of other systems that a call shares with its result (AT-INV-05)."""
    return {name: refs for name in _LINKS if (refs := getattr(result, name))}


CompactResult: TypeAlias = tuple[Timestamp, str] | tuple[Timestamp, str, bool] | tuple[Timestamp, None, RawJson]
"""A plain result on disk: its time and its text; or its time and its JSON value, whose spelling is the text."""


def compact_result(result: ToolResult) -> CompactResult:
    """Return the compact form of a `plain_result`."""
    text = result.content[0].text or "" if result.content else ""
    structured = result.structured_content
    if structured is UNSET:
        return result.created_at, text
    if structured is text:
        return result.created_at, text, True
    return result.created_at, None, RawJson(text.encode())


class CallEnded(Evidence, frozen=True):
    """The result of the call, and what became of the changes it requested to the shared context.

    `is_plain` states that the result is a `plain_result`.
    """

    result: ToolResult
    context_modifiers: JsonObject | None = None
    is_plain: bool = False

    def members(self, event: EventType) -> JsonObject:
        """Return the result's id and, for a failure, its class."""
        result = self.result
        members: JsonObject = {"result_id": result.result_id}
        if result.error is not None and event.is_terminal:
            members["error_class"] = result.error.error_class.value
            members["error_code"] = result.error.error_code
        if self.context_modifiers is not None and event.is_terminal:
            members["context_modifiers"] = self.context_modifiers
        return members

    def contributes(self) -> Mapping[str, object]:
        """Return the refs of the result."""
        return links_of(self.result)

    def records(self, fact: Fact) -> tuple[Record, ...]:
        """Return the result."""
        return (self.result,)

    def compact(self, fact: Fact) -> CompactFact | ProjectedFact:
        """Return the result alone, unless the call changed the context."""
        if self.is_plain:
            return CompactFact("plain_end", (compact_result(self.result),))
        return CompactFact("end", (self.result,)) if self.context_modifiers is None else super().compact(fact)


class ResultMade(CallEnded, frozen=True):
    """A result that waits for its place in the order of a batch; the end of its call will project it."""

    def contributes(self) -> Mapping[str, object]:
        """Return nothing: the result is not delivered yet."""
        return {}

    def records(self, fact: Fact) -> tuple[Record, ...]:
        """Return nothing: the result is not delivered yet."""
        return ()

    def compact(self, fact: Fact) -> CompactFact:
        """Return all of it, so that another process can deliver the result after a crash."""
        return CompactFact("made", (self.result, self.context_modifiers))


class CallCompleted(CallLaunched, frozen=True):
    """A plain call whose tool never waited, from its request to its result."""

    result: ToolResult
    started_ns: int
    is_plain: bool = False

    def members(self, event: EventType) -> JsonObject:
        """Return the members of the start or of the end."""
        return CallEnded(self.result).members(event) if event in _END_EVENTS else super().members(event)

    def contributes(self) -> Mapping[str, object]:
        """Return the fields of the start, its time, and the refs of the result."""
        return {**super().contributes(), "started_at": timestamp(self.started_ns), **links_of(self.result)}

    def records(self, fact: Fact) -> tuple[Record, ...]:
        """Return the decision and the result."""
        return (*super().records(fact), self.result)

    def compact(self, fact: Fact) -> CompactFact | ProjectedFact:
        """Return the request, the result, the change and the shared decision, if they are all."""
        if not self._is_compact:
            return super().compact(fact)
        kind, result = ("plain_call", compact_result(self.result)) if self.is_plain else ("call", self.result)
        words = (self._request_words(), result, self.started_ns, *self._change_words())
        return CompactFact(kind, words, self.shared)


_END_EVENTS = frozenset({EventType.RESULT_CREATED, EventType.YIELDED, EventType.SUCCEEDED})
