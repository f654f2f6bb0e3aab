"""Persistence of results: which bytes are inlined, previewed, stored, redacted or dropped.

`decide_persistence` makes a plan, the pipeline stores the payloads, and `apply_plan` returns the delivered result and
the record of the decision. Nothing here does I/O.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from math import inf
from typing import NamedTuple

from agenttool.codec import to_json
from agenttool.codec.visible_text import visible_text
from agenttool.ports.output import NativeOutput
from agenttool.records import (
    UNSET,
    ContentClass,
    ContentItem,
    ErrorClass,
    Json,
    JsonObject,
    OutputContract,
    PersistenceId,
    PersistenceStrategy,
    Phase,
    RedactionState,
    Ref,
    ResultPersistence,
    Timestamp,
    ToolError,
    ToolInterface,
    ToolResult,
    replace,
    text_item,
)
from agenttool.results.content import ContentReader
from agenttool.results.failure import error_text, guided, outcome_of, summary_of
from agenttool.results.jsonable import encode, to_jsonable_leniently
from agenttool.results.mapping import Mapped
from agenttool.results.payloads import JSON, PLAIN_TEXT, Payload, payload_of
from agenttool.results.preview import PREVIEW_CHARS, READ_RESULT, ReadHint, preview
from agenttool.results.redaction import Redactor, Scrubber

DEFAULT_INLINE_CHARS = 30_000
"""How many code points a result may inline unless the tool declares another limit (G-53)."""

SELF_BOUNDED_CHARS = 500_000
"""The limit for a tool that declares that it bounds its own output."""

PARTIAL_RESULT = "partial_result_of_call"
"""The relation of a payload that a tool reported before its result."""

_NATIVE_OUTPUT = "native_output_of_call"
_FULL_OUTPUT = "full_output_of_result"
_OVER_LIMIT = "result_exceeded_inline_limit"  # AT-PERS-13
_MAX_CAPTION_CHARS = 500
_LEAST_PREVIEW_CHARS = 400
_MAX_UTF8_BYTES = 4
_Strategy = PersistenceStrategy
_ALWAYS = (_Strategy.REF_ONLY, _Strategy.NEVER_PERSIST)
_STORING = (_Strategy.PREVIEW_AND_PERSIST, _Strategy.REF_ONLY)


@dataclass(frozen=True, slots=True, kw_only=True)
class PersistencePolicy:
    """How the results of one tool are stored; read from its records once.

    Attributes:
        over_limit: the strategy for results that are too large to inline; `ref_only` and `never_persist` hold for all.
        self_bounding: results are never stored; this holds for the tool that reads stored output (AT-PERS-15).
        inline_below: a result with at most this many characters is inlined without further checks.
    """

    max_inline_chars: int = DEFAULT_INLINE_CHARS
    max_inline_bytes: int | None = None
    over_limit: PersistenceStrategy = _Strategy.PREVIEW_AND_PERSIST
    self_bounding: bool = False
    fallback_summary: str | None = None
    effects: bool | None = None
    inline_below: int = field(init=False, default=0)

    def __post_init__(self) -> None:
        """Compute `inline_below` once: no code point takes more than four bytes."""
        limits = [self.max_inline_chars]
        if self.max_inline_bytes is not None:
            limits.append(self.max_inline_bytes // _MAX_UTF8_BYTES)
        object.__setattr__(self, "inline_below", -1 if self.over_limit in _ALWAYS else min(limits))

    @property
    def stored_above(self) -> float:
        """A result of more characters is stored; infinite if this tool never stores one for its size."""
        return inf if self.self_bounding or self.over_limit not in _STORING else self.max_inline_chars


def policy_of(interface: ToolInterface, contract: OutputContract | None = None) -> PersistencePolicy:
    """Return the policy of a tool; of two limits the smaller one counts (G-19).

    `persistence_policy_ref` is opaque (G-55), except for the names of the strategies and `self_bounding`. Both
    `self_bounding` and `inline` opt out of storing.
    """
    contract = contract or OutputContract()
    limits = [each for each in (interface.max_inline_chars, contract.max_inline_chars) if each is not None]
    named = interface.persistence_policy_ref or contract.persistence_policy_ref or ""
    over_limit = _NAMED.get(named, _Strategy.PREVIEW_AND_PERSIST)
    return PersistencePolicy(
        max_inline_chars=min(limits, default=DEFAULT_INLINE_CHARS),
        max_inline_bytes=contract.max_inline_bytes,
        over_limit=over_limit,
        self_bounding=named in _OPTS_OUT,
        fallback_summary=contract.fallback_summary,
        effects=False if interface.is_read_only is True else None,
    )


_NAMED = {str(each): each for each in _Strategy if each not in (_Strategy.INLINE, _Strategy.REDACT)}
_OPTS_OUT = ("self_bounding", str(_Strategy.INLINE))


class PersistencePlan(NamedTuple):
    """What is done with one result.

    Before a plan is applied, its `payload` must be stored, and so must the media of the result if `stores_media` is
    set. A plan with an error delivers only the error.
    """

    strategy: PersistenceStrategy
    reason: str | None = None
    threshold: JsonObject | None = None
    payload: Payload | None = None
    preview: str | None = None
    stores_media: bool = True
    fallback_summary: str | None = None
    error: ToolError | None = None


INLINE = PersistencePlan(strategy=_Strategy.INLINE)
"""The plan of a small result without redactions: it is delivered unchanged."""


class ResultDocument(NamedTuple):
    """The text of a result as one document, without the items that only point to something."""

    text: str
    media_type: str
    size_bytes: int


def document_of(result: ToolResult) -> ResultDocument:
    """Return a result as one document: JSON if it is one value, text if it is text, or JSON with both."""
    items = [item for item in result.model_facing_content or () if not _is_pointer(item)]
    structured = result.structured_content
    texts = [item.text or "" for item in items]
    written = "" if structured is UNSET else encode(structured).decode()
    if structured is not UNSET and (not items or texts == [written]):
        text, media_type = written, JSON
    elif structured is UNSET or texts == [structured]:
        text, media_type = "\n".join(texts), (items[0].media_type if len(items) == 1 else None) or PLAIN_TEXT
    else:
        both: Json = {"content": [to_json(item) for item in items], "structured_content": structured}
        text, media_type = encode(both).decode(), JSON
    return ResultDocument(text=text, media_type=media_type, size_bytes=len(text.encode()))


def _is_pointer(item: ContentItem) -> bool:
    """Return whether an item is a ref or a URI with at most a caption."""
    has_target = item.ref is not None or item.uri is not None
    return has_target and item.data is UNSET and len(item.text or "") <= _MAX_CAPTION_CHARS


def decide_persistence(
    mapped: Mapped, policy: PersistencePolicy, read_tool: Callable[[], str] = lambda: READ_RESULT
) -> PersistencePlan:
    """Return the plan for one result.

    The plan has an error only if nothing can be delivered (G-12): all of it is redacted, or it may be neither inlined
    nor stored. A preview or a ref is a success, and names the tool that reads the rest.
    """
    state = mapped.result.redaction_state
    if mapped.chars <= policy.inline_below and state is RedactionState.NONE:
        return INLINE
    if state is RedactionState.FULL:
        message = "the output may not be shown"
        withheld = ErrorClass.RESULT_REDACTED
        return _nothing_delivered(policy, _Strategy.REDACT, "fully_redacted", message, error_class=withheld)
    if mapped.payloads and policy.over_limit is _Strategy.NEVER_PERSIST:
        return _nothing_delivered(
            policy,
            _Strategy.NEVER_PERSIST,
            "media_never_persisted",
            "the output is media, which must be stored, and this tool forbids storing",
        )
    document = document_of(mapped.result)
    threshold: JsonObject | None = None  # the limit that is exceeded; a result at the limit does not exceed it
    if mapped.chars > policy.max_inline_chars:
        threshold = {"max_inline_chars": policy.max_inline_chars}
    elif policy.max_inline_bytes is not None and document.size_bytes > policy.max_inline_bytes:
        threshold = {"max_inline_bytes": policy.max_inline_bytes}
    is_stored = threshold is not None or (policy.over_limit is _Strategy.REF_ONLY and bool(document.text))
    if is_stored and not policy.self_bounding and policy.over_limit in _STORING:
        return _stored(document, policy, threshold, state, read_tool())
    return _within_limit(policy, state) if threshold is None else _over_limit(document, policy, threshold)


def _within_limit(policy: PersistencePolicy, state: RedactionState | None) -> PersistencePlan:
    if policy.over_limit is _Strategy.NEVER_PERSIST:
        return PersistencePlan(strategy=_Strategy.NEVER_PERSIST, reason="policy_never_persist", stores_media=False)
    if state is RedactionState.PARTIAL:
        return PersistencePlan(strategy=_Strategy.REDACT, reason="sensitive_fields_redacted")
    return INLINE


def _over_limit(document: ResultDocument, policy: PersistencePolicy, threshold: JsonObject) -> PersistencePlan:
    if policy.self_bounding and len(document.text) <= SELF_BOUNDED_CHARS:
        return PersistencePlan(strategy=_Strategy.INLINE, reason="self_bounding_tool", threshold=threshold)
    strategy = policy.over_limit
    if policy.self_bounding:
        strategy = _Strategy.DROP_WITH_REASON
        threshold = {"self_bounded_chars": SELF_BOUNDED_CHARS}
    [(name, limit)] = threshold.items()
    return _nothing_delivered(
        policy,
        strategy,
        _OVER_LIMIT,
        f"the output is larger than its limit ({name} {limit}) and may not be stored",
        threshold=threshold,
    )


def _stored(
    document: ResultDocument,
    policy: PersistencePolicy,
    threshold: JsonObject | None,
    state: RedactionState | None,
    read_tool: str,
) -> PersistencePlan:
    payload = payload_of(
        document.text.encode(),
        media_type=document.media_type,
        relation=_FULL_OUTPUT,
        redaction_state=state or RedactionState.NONE,
    )
    hint = ReadHint(payload_id=payload.ref.id or "", tool=read_tool)
    if policy.over_limit is _Strategy.REF_ONLY:
        notice = f"The output ({document.size_bytes} bytes, {document.media_type}) is stored and not shown."
        lines = [policy.fallback_summary, f"{notice} {hint.first_call()}"]
        shown = "\n".join(each for each in lines if each is not None)
    else:
        budget = max(min(PREVIEW_CHARS, policy.max_inline_chars), _LEAST_PREVIEW_CHARS)
        shown = visible_text(preview(document.text, budget=budget, hint=hint))
    return PersistencePlan(
        strategy=policy.over_limit,
        reason="policy_ref_only" if threshold is None else _OVER_LIMIT,
        threshold=threshold,
        payload=payload,
        preview=shown,
    )


def _nothing_delivered(
    policy: PersistencePolicy,
    strategy: PersistenceStrategy,
    reason: str,
    message: str,
    *,
    error_class: ErrorClass = ErrorClass.RESULT_TOO_LARGE,
    threshold: JsonObject | None = None,
) -> PersistencePlan:
    return PersistencePlan(
        strategy=strategy,
        reason=reason,
        threshold=threshold,
        stores_media=False,
        fallback_summary=policy.fallback_summary,
        error=guided(error_class, phase=Phase.PERSIST_RESULT, message=message, effects=policy.effects),
    )


def apply_plan(
    plan: PersistencePlan,
    result: ToolResult,
    stored_ref: Ref | None,
    *,
    decision_id: PersistenceId,
    created_at: Timestamp,
) -> tuple[ToolResult, ResultPersistence]:
    """Return the result as it is delivered, and the record of the decision.

    `stored_ref` names the stored payload of the plan. If the plan has a payload and `stored_ref` is none, storing
    failed, and the delivered result is an error.
    """
    size = document_of(result).size_bytes if plan.payload is None else len(plan.payload.data)
    error = plan.error
    if plan.payload is not None and stored_ref is None:
        error = guided(
            ErrorClass.RESULT_TOO_LARGE,
            phase=Phase.PERSIST_RESULT,
            message=f"the output has {size} bytes, which is too much to inline, and could not be stored",
            code="not_persistable",
        )
    shown: str | None = None
    if error is not None:
        delivered = _with_error(result, error, plan.fallback_summary)
    elif plan.payload is not None and stored_ref is not None:
        shown = plan.preview or ""
        delivered = _with_preview(result, shown, stored_ref)
    else:
        delivered = result
    decision = ResultPersistence(
        decision_id=decision_id,
        invocation_id=result.invocation_id,
        result_id=result.result_id,
        strategy=plan.strategy if error is plan.error else PersistenceStrategy.DROP_WITH_REASON,
        threshold=plan.threshold,
        original_size_bytes=size,
        preview_size_bytes=None if shown is None else len(shown.encode()),
        persisted_ref=stored_ref if shown is not None else None,
        redaction_state=result.redaction_state,
        reason=plan.reason if error is plan.error else "not_persistable",
        created_at=created_at,
    )
    return replace(delivered, persistence_refs=(*(result.persistence_refs or ()), decision_id)), decision


def _with_preview(result: ToolResult, shown: str, ref: Ref) -> ToolResult:
    """Replace the text of a result by a preview; items that only point to something stay."""
    stored = ContentItem(type=ContentClass.PERSISTED_OUTPUT_REF, ref=ref, media_type=ref.media_type)
    return replace(
        result,
        content=(stored, *filter(_is_pointer, result.content or ())),
        structured_content=UNSET,
        model_facing_content=(text_item(shown), *filter(_is_pointer, result.model_facing_content or ())),
        native_output_ref=result.native_output_ref or ref.id,
    )


def _with_error(result: ToolResult, error: ToolError, fallback_summary: str | None) -> ToolResult:
    """Replace the content of a result by an error; a call that failed before keeps its own error."""
    if result.is_error and result.error is not None:
        error = result.error
    status = outcome_of(error).result_status
    text = error_text(error)
    return replace(
        result,
        status=status,
        is_error=status.is_error,
        content=(),
        structured_content=UNSET,
        model_facing_content=(text_item(text if fallback_summary is None else f"{fallback_summary}\n{text}"),),
        empty_result=None,
        ui_facing_rendering=UNSET,
        transcript_search_text=None,
        summary=summary_of(error),
        error=error,
    )


def with_stored_output(failure: Mapped, payloads: tuple[Payload, ...]) -> Mapped:
    """Return a failed result that names the output of the call, which is the first of the payloads."""
    if not payloads:
        return failure
    result = replace(failure.result, native_output_ref=payloads[0].ref.id)
    return replace(failure, result=result, payloads=payloads, needs_decision=True)


def mapped_payloads(mapped: Mapped) -> tuple[Payload, ...]:
    """Return a mapped output as payloads, its text first; a fully redacted output has no text."""
    state = mapped.result.redaction_state or RedactionState.NONE
    document = document_of(mapped.result)
    if state is RedactionState.FULL or not document.text:
        return mapped.payloads
    data = document.text.encode()
    text = payload_of(data, media_type=document.media_type, relation=_NATIVE_OUTPUT, redaction_state=state)
    return text, *mapped.payloads


def native_payloads(
    output: object,
    *,
    redactor: Redactor | None = None,
    scrubber: Scrubber | None = None,
    relation: str = _NATIVE_OUTPUT,
) -> tuple[Payload, ...]:
    """Return native output as a JSON payload, followed by its media; it is redacted and scrubbed like a result.

    A value without a JSON form is replaced by the name of its type.

    Raises:
        ToolFailure: result_mapping_failed; the output cannot be read, or has too many values.
    """
    reader = ContentReader(scrubber, redactor)
    parts: dict[str, object] = {"": output}
    if isinstance(output, NativeOutput):
        # Sensitive paths start at the root of a value. Content has no such root, so it is left out.
        parts = {"value": output.value, "structured_content": output.structured_content}
        parts |= {"content": output.content or UNSET} if redactor is None else {}
    cleaned = {
        name: reader.cleaned(to_jsonable_leniently(part, reader.add_bytes))
        for name, part in parts.items()
        if part is not UNSET
    }
    document = cleaned if isinstance(output, NativeOutput) else cleaned[""]
    payload = payload_of(encode(document), media_type=JSON, relation=relation)
    return payload, *reader.payloads
