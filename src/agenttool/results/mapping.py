"""Native output to result, exactly once; what nearly every tool returns takes the short way."""

from agenttool.records import (
    UNSET,
    InvocationId,
    Json,
    Part,
    RedactionState,
    ResultId,
    ResultStatus,
    Timestamp,
    ToolResult,
    UnsetType,
    plain_result,
    text_item,
)
from agenttool.results.draft import EMPTY_TEXT, CallIds, draft
from agenttool.results.lift import find_media, may_hold_media
from agenttool.results.plain import encode, is_unicode, quick_plain
from agenttool.results.plan import MappingPlan
from agenttool.results.refs import Payload
from agenttool.results.scrub import Scrubber


class Mapped(Part, frozen=True, kw_only=True):
    """A result before it is stored: the draft, the bytes that its refs promise, and how much it would inline.

    `chars` counts the code points that a model would read, or those of the structured value if there are more;
    `needs_decision` says that somebody must decide about it even if that is little, `is_plain` that it is a
    `plain_result`.
    """

    result: ToolResult
    payloads: tuple[Payload, ...] = ()
    chars: int = 0
    needs_decision: bool = False
    is_plain: bool = False


def map_output(
    output: object,
    plan: MappingPlan,
    invocation_id: InvocationId,
    result_id: ResultId,
    created_at: Timestamp,
    scrubber: Scrubber | None = None,
) -> Mapped:
    """Turn what a tool returned into the draft of its result.

    The same output gives the same bytes, today and when the call is replayed (AT-PIPE-20). The payloads must be stored
    before the result is told to anyone.

    Raises:
        ToolFailure: result_mapping_failed; the tool ran, so that trying again is not safe.
    """
    if type(output) is int and -_EXACT < output < _EXACT and plan.is_bare:
        told = str(output), output
    else:
        told = _told_plainly(output, plan) if plan.is_plain else None
    if told is None or (scrubber is not None and scrubber.text(told[0]) is not told[0]):
        ids = CallIds(result_id=result_id, invocation_id=invocation_id, created_at=created_at)
        if output is None and plan.is_plain and plan.may_be_empty:
            return _empty(ids)
        return measured(*draft(output, plan, ids, scrubber))
    text, structured = told
    result = plain_result(text, structured, invocation_id=invocation_id, result_id=result_id, created_at=created_at)
    return Mapped(result=result, chars=len(text), is_plain=True)


def _empty(ids: CallIds) -> Mapped:
    """Give at once what `draft` would: many tools act and return nothing."""
    result = ToolResult(
        result_id=ids.result_id,
        invocation_id=ids.invocation_id,
        status=_SUCCEEDED,
        is_error=False,
        content=(),
        model_facing_content=_EMPTY_CONTENT,
        empty_result=True,
        redaction_state=_NOT_REDACTED,
        created_at=ids.created_at,
    )
    return Mapped(result=result, chars=len(EMPTY_TEXT))


_EMPTY_CONTENT = (text_item(EMPTY_TEXT),)
_EXACT = 2**53
"""Integers below this are the same for everyone who reads JSON."""
_SUCCEEDED = ResultStatus.SUCCEEDED
_NOT_REDACTED = RedactionState.NONE


def _told_plainly(output: object, plan: MappingPlan) -> tuple[str, Json | UnsetType] | None:
    """Give the text and the structured value of a plain output; nothing for one that needs a closer look."""
    structured: Json | UnsetType = UNSET
    if type(output) is str:
        text = output
        if not text or not is_unicode(text) or find_media(text):
            return None
    else:
        found = quick_plain(output)
        if found is None or may_hold_media(found[1]):
            return None
        structured = found[0]
        text = found[1].decode()
    if plan.check is not None:
        structured = text if structured is UNSET else structured
        if not plan.check.accepts(structured):
            return None
    return text, structured


def measured(result: ToolResult, payloads: tuple[Payload, ...] = ()) -> Mapped:
    """Count what a result that was made some other way, or changed by a hook, would inline."""
    model_chars = sum(len(item.text or "") + _spelled(item.data) for item in result.model_facing_content or ())
    chars = max(model_chars, _spelled(result.structured_content))
    needs_decision = bool(payloads) or result.redaction_state is not _NOT_REDACTED
    return Mapped(result=result, payloads=payloads, chars=chars, needs_decision=needs_decision)


def _spelled(value: Json | UnsetType) -> int:
    return 0 if value is UNSET else len(encode(value).decode())
