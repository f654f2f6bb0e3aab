"""Where the bytes of a result go: inline, previewed, by ref, redacted, dropped or never kept. Decided, not done."""

from collections.abc import Callable
from dataclasses import dataclass, field

from agenttool.records import (
    ErrorClass,
    JsonObject,
    OutputContract,
    Part,
    PersistenceStrategy,
    Phase,
    RedactionState,
    ToolError,
    ToolInterface,
)
from agenttool.results.bulk import Bulk, bulk_of
from agenttool.results.failure import guided
from agenttool.results.mapping import Mapped
from agenttool.results.preview import READ_RESULT, ReadHint, preview
from agenttool.results.refs import Payload, payload_of

DEFAULT_INLINE_CHARS = 30_000
"""How many code points a model is given at once unless the tool says otherwise (G-53)."""

DEFAULT_PREVIEW_CHARS = 4_000

SELF_BOUNDED_CHARS = 1_000_000
"""What even a tool that bounds itself may not exceed: beyond this its promise is broken."""

FULL_OUTPUT = "full_output_of_result"
"""The relation to a result of what was stored in its place."""

OVER_LIMIT = "result_exceeded_inline_limit"
"""The reason token of whatever was too large to inline (AT-PERS-13)."""

_LEAST_PREVIEW_CHARS = 400
_MAX_UTF8_BYTES = 4
_Strategy = PersistenceStrategy
_STORING = (_Strategy.PREVIEW_AND_PERSIST, _Strategy.REF_ONLY)


@dataclass(frozen=True, slots=True, kw_only=True)
class PersistencePolicy:
    """What one tool wants done with its results: read from its records once.

    `over_limit` is for results that are too large to inline, `always` for every result whatever its size. A tool that
    bounds itself, above all one that reads stored output back, is never stored again (AT-PERS-15).
    """

    max_inline_chars: int = DEFAULT_INLINE_CHARS
    max_inline_bytes: int | None = None
    over_limit: PersistenceStrategy = _Strategy.PREVIEW_AND_PERSIST
    always: PersistenceStrategy | None = None
    self_bounding: bool = False
    preview_chars: int = DEFAULT_PREVIEW_CHARS
    fallback_summary: str | None = None
    effects: bool | None = None
    inline_below: int = field(init=False, default=0)

    def __post_init__(self) -> None:
        """Work out once below which size nothing needs to be asked: no code point takes more than four bytes."""
        limits = [self.max_inline_chars]
        if self.max_inline_bytes is not None:
            limits.append(self.max_inline_bytes // _MAX_UTF8_BYTES)
        object.__setattr__(self, "inline_below", -1 if self.always is not None else min(limits))


DEFAULT_POLICY = PersistencePolicy()
"""The policy of a tool that declares nothing about its results."""


def policy_of(interface: ToolInterface, contract: OutputContract | None = None) -> PersistencePolicy:
    """Read the policy of a tool from its records; of two limits the smaller counts (G-19).

    `persistence_policy_ref` is opaque (G-55), but for the names of the strategies, which mean themselves, and
    `self_bounding`, which like `inline` opts out of being stored.
    """
    contract = contract or OutputContract()
    limits = [each for each in (interface.max_inline_chars, contract.max_inline_chars) if each is not None]
    named = interface.persistence_policy_ref or contract.persistence_policy_ref or ""
    over_limit = _NAMED.get(named, _Strategy.PREVIEW_AND_PERSIST)
    return PersistencePolicy(
        max_inline_chars=min(limits, default=DEFAULT_INLINE_CHARS),
        max_inline_bytes=contract.max_inline_bytes,
        over_limit=over_limit,
        always=over_limit if over_limit in (_Strategy.REF_ONLY, _Strategy.NEVER_PERSIST) else None,
        self_bounding=named in _OPTS_OUT,
        fallback_summary=contract.fallback_summary,
        effects=False if interface.is_read_only is True else None,
    )


_NAMED = {str(each): each for each in _Strategy if each not in (_Strategy.INLINE, _Strategy.REDACT)}
_OPTS_OUT = ("self_bounding", str(_Strategy.INLINE))


@dataclass(frozen=True, slots=True, kw_only=True)
class PersistencePlan:
    """What shall be done with one result.

    Before a plan is applied, its `payload` must be stored, and the media of the result unless `stores_media` forbids
    it. A plan with an error delivers nothing but the error.
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
"""The plan of nearly every result: it is small, nothing was taken out of it, and it stays as it is."""


def decide_persistence(
    mapped: Mapped, policy: PersistencePolicy, read_tool: Callable[[], str] = lambda: READ_RESULT
) -> PersistencePlan:
    """Decide where the bytes of one result go.

    Nothing to deliver is the only way to fail here (G-12): all of it was redacted, or it may neither be inlined nor
    stored. A preview or a ref is a success, and names the tool by which the rest is read.
    """
    state = mapped.result.redaction_state
    if mapped.chars <= policy.inline_below and state is RedactionState.NONE:
        return INLINE
    if state is RedactionState.FULL:
        return _withheld(policy, _REDACTED, _Strategy.REDACT)
    if mapped.payloads and policy.over_limit is _Strategy.NEVER_PERSIST:
        return _withheld(policy, _UNSTORABLE_MEDIA, _Strategy.NEVER_PERSIST)
    bulk = bulk_of(mapped.result)
    threshold = _exceeded(bulk, mapped.chars, policy)
    is_stored = threshold is not None or (policy.always is _Strategy.REF_ONLY and bool(bulk.text))
    if is_stored and not policy.self_bounding and policy.over_limit in _STORING:
        return _stored(bulk, policy, threshold, state, read_tool())
    return _within_limit(policy, state) if threshold is None else _over_limit(bulk, policy, threshold)


def _exceeded(bulk: Bulk, chars: int, policy: PersistencePolicy) -> JsonObject | None:
    """Name the limit that counts: the first that is exceeded, and at the limit is not over it."""
    if chars > policy.max_inline_chars:
        return {"max_inline_chars": policy.max_inline_chars}
    if policy.max_inline_bytes is not None and bulk.size_bytes > policy.max_inline_bytes:
        return {"max_inline_bytes": policy.max_inline_bytes}
    return None


def _within_limit(policy: PersistencePolicy, state: RedactionState | None) -> PersistencePlan:
    if policy.always is _Strategy.NEVER_PERSIST:
        return PersistencePlan(strategy=_Strategy.NEVER_PERSIST, reason="policy_never_persist", stores_media=False)
    if state is RedactionState.PARTIAL:
        return PersistencePlan(strategy=_Strategy.REDACT, reason="sensitive_fields_redacted")
    return INLINE


def _over_limit(bulk: Bulk, policy: PersistencePolicy, threshold: JsonObject) -> PersistencePlan:
    if policy.self_bounding and len(bulk.text) <= SELF_BOUNDED_CHARS:
        return PersistencePlan(strategy=_Strategy.INLINE, reason="self_bounding_tool", threshold=threshold)
    if policy.self_bounding:
        broken: JsonObject = {"self_bounded_chars": SELF_BOUNDED_CHARS}
        return _withheld(policy, _too_large(broken), _Strategy.DROP_WITH_REASON, broken)
    return _withheld(policy, _too_large(threshold), policy.over_limit, threshold)


def _stored(
    bulk: Bulk, policy: PersistencePolicy, threshold: JsonObject | None, state: RedactionState | None, read_tool: str
) -> PersistencePlan:
    payload = payload_of(
        bulk.text.encode(),
        media_type=bulk.media_type,
        relation=FULL_OUTPUT,
        redaction_state=state or RedactionState.NONE,
    )
    hint = ReadHint(payload_id=payload.ref.id or "", tool=read_tool)
    if policy.over_limit is _Strategy.REF_ONLY:
        told = f"The output ({bulk.size_bytes} bytes, {bulk.media_type}) is stored and not shown. {hint.whole()}"
        shown = told if policy.fallback_summary is None else f"{policy.fallback_summary}\n{told}"
    else:
        budget = max(min(policy.preview_chars, policy.max_inline_chars), _LEAST_PREVIEW_CHARS)
        shown = preview(bulk.text, budget=budget, hint=hint, kind=bulk.kind, value=bulk.value)
    return PersistencePlan(
        strategy=policy.over_limit,
        reason="policy_ref_only" if threshold is None else OVER_LIMIT,
        threshold=threshold,
        payload=payload,
        preview=shown,
    )


class _Withholding(Part, frozen=True, kw_only=True):
    """Why nothing can be delivered."""

    error_class: ErrorClass
    message: str
    reason: str


_REDACTED = _Withholding(
    error_class=ErrorClass.RESULT_REDACTED, message="the output may not be shown", reason="fully_redacted"
)
_UNSTORABLE_MEDIA = _Withholding(
    error_class=ErrorClass.RESULT_TOO_LARGE,
    message="the output is media, which has to be stored, and this tool forbids storing",
    reason="media_never_persisted",
)


def _too_large(threshold: JsonObject) -> _Withholding:
    [(name, limit)] = threshold.items()
    return _Withholding(
        error_class=ErrorClass.RESULT_TOO_LARGE,
        message=f"the output is larger than its limit ({name} {limit}) and may not be stored",
        reason=OVER_LIMIT,
    )


def _withheld(
    policy: PersistencePolicy,
    why: _Withholding,
    strategy: PersistenceStrategy,
    threshold: JsonObject | None = None,
) -> PersistencePlan:
    return PersistencePlan(
        strategy=strategy,
        reason=why.reason,
        threshold=threshold,
        stores_media=False,
        fallback_summary=policy.fallback_summary,
        error=guided(why.error_class, phase=Phase.PERSIST_RESULT, message=why.message, effects=policy.effects),
    )
