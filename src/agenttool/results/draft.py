"""Native output to result, the long way: media, models, misfits, redaction, errors and parts."""

from agenttool.codec import read, write
from agenttool.errors import RecordError
from agenttool.ports.output import NativeError, NativeOutput, Partial
from agenttool.records import (
    UNSET,
    ContentClass,
    ContentItem,
    ErrorClass,
    InvocationId,
    Json,
    Part,
    Phase,
    RedactionState,
    ResultId,
    ResultStatus,
    Timestamp,
    ToolError,
    ToolResult,
    UnsetType,
    replace,
    text_item,
)
from agenttool.results.content import Reader, given_items, is_content, is_listed, spelled_json
from agenttool.results.failure import completed, guided, outcome_of, told_to_model, with_native_error
from agenttool.results.lift import Lifter
from agenttool.results.plain import NO_MEDIA, encode, failure, run_foreign, to_plain
from agenttool.results.plan import EmptyResultPolicy, MappingPlan
from agenttool.results.redaction import MARKER, Redactor
from agenttool.results.refs import Payload
from agenttool.results.scrub import Scrubber, compile_scrubber
from agenttool.results.wording import clean_message
from agenttool.schema.compile import Checker

EMPTY_TEXT = "The tool succeeded and returned no output."
"""What a model reads when there is nothing to read: empty is not missing (AT-PERS-14)."""

_MAX_MISFITS_TOLD = 5


class CallIds(Part, frozen=True, kw_only=True):
    """Whose result it is, and when it was made."""

    result_id: ResultId
    invocation_id: InvocationId
    created_at: Timestamp


class _Said(Part, frozen=True, kw_only=True):
    """What an output comes to: its items, what a model reads of them, and the structured value beside them."""

    content: tuple[ContentItem, ...] = ()
    for_model: tuple[ContentItem, ...] = ()
    structured: Json | UnsetType = UNSET
    state: RedactionState = RedactionState.NONE


def draft(
    output: object, plan: MappingPlan, ids: CallIds, scrubber: Scrubber | None
) -> tuple[ToolResult, tuple[Payload, ...]]:
    """Map any output of a tool, once.

    The finished record is written and read back: parts that a tool filled in itself are thereby held to the record's
    shape, and nobody else holds them any more.

    Raises:
        ToolFailure: result_mapping_failed.
    """
    native = run_foreign(lambda each: _native(each, plan), output)
    redactor = plan.redactor
    if redactor is not None and redactor.is_whole:
        return _withheld(native, plan, ids), ()
    if redactor is not None:
        found = run_foreign(lambda each: _sensitive_values(each, redactor), native)
        also = compile_scrubber(found)
        scrubber = also.and_also(scrubber) if also is not None else scrubber
    lifter = Lifter(scrubber)
    said = run_foreign(lambda each: _read(each, plan, lifter), native)
    if not plan.has_artifacts:
        _hold_to_no_artifacts(native, said.content)
    result = run_foreign(lambda each: _result(each, plan, ids, said, scrubber), native)
    if scrubber is not None:
        result = _without_secrets(result, scrubber)
    try:
        return read(write(result), ToolResult), lifter.payloads
    except (RecordError, TypeError, ValueError, RecursionError) as error:
        raise failure(f"output does not make a result: {error}; fill NativeOutput as it is declared") from error


def _native(output: object, plan: MappingPlan) -> NativeOutput:
    mapped = output if plan.mapper is None else plan.mapper(output)
    if isinstance(mapped, NativeOutput):
        return mapped
    # A kind of text, such as a safe string of a template library, is text.
    return NativeOutput(value=str.__str__(mapped) if isinstance(mapped, str) else mapped)


def _withheld(native: NativeOutput, plan: MappingPlan, ids: CallIds) -> ToolResult:
    """Keep everything back; that there was an output is all that is told."""
    said = _Said(for_model=(text_item(plan.fallback_summary or MARKER),), state=RedactionState.FULL)
    silent = NativeOutput(is_error=native.is_error, value=MARKER)
    return _result(silent, plan, ids, said)


def _sensitive_values(native: NativeOutput, redactor: Redactor) -> list[Json]:
    """Find what stands at the sensitive places of an output, so that its other texts do not repeat it."""
    reader = Reader(lifter=Lifter(), redactor=None)
    values = [reader.structured(each) for each in (native.structured_content, native.value) if _is_value(each)]
    for item in given_items(native) or ():
        text = item.text if isinstance(item, ContentItem) else item
        values.append(spelled_json(text) if isinstance(text, str) else None)
        if isinstance(item, ContentItem) and item.data is not UNSET:
            values.append(reader.structured(item.data))
    return [secret for value in values for secret in redactor.find(value)]


def _is_value(value: object) -> bool:
    return not (value is UNSET or value is None or isinstance(value, str) or is_content(value))


def _read(native: NativeOutput, plan: MappingPlan, lifter: Lifter) -> _Said:
    """Read the content and the structured value of an output.

    The schema judges the value as the tool meant it, before media and secrets are taken out of it.
    """
    reader = Reader(lifter=lifter, redactor=plan.redactor)
    raw = _structured_value(native, reader, has_schema=plan.check is not None)
    if plan.check is not None and not _is_failure(native):
        _hold_to_schema(raw, plan.check)
    structured = raw if raw is UNSET else reader.cleaned(raw)
    stated = _stated(native, reader, structured)
    if plan.content_types is not None:
        _hold_to_content_types(stated, plan.content_types, has_structured=structured is not UNSET)
    facts = UNSET if native.partial is None else reader.cleaned(reader.structured(_facts(native.partial)))
    if facts is not UNSET:
        stated = (*stated, ContentItem(type=ContentClass.STRUCTURED_CONTENT, name="partial", data=facts))
    for_model = [reader.for_model(item) for item in stated]
    # Reading for the model may find media, too: what was put aside is listed last.
    for_model += [reader.for_model(item) for item in lifter.items]
    is_redacted = reader.has_redacted or lifter.has_scrubbed
    return _Said(
        content=(*stated, *lifter.items),
        for_model=tuple(for_model),
        structured=facts if structured is UNSET and plan.check is None else structured,
        state=RedactionState.PARTIAL if is_redacted else RedactionState.NONE,
    )


def _structured_value(native: NativeOutput, reader: Reader, *, has_schema: bool) -> Json | UnsetType:
    if native.structured_content is not UNSET:
        return reader.structured(native.structured_content)
    if native.value is None or isinstance(native.value, str):
        return native.value if has_schema else UNSET
    if has_schema and is_listed(native.value):
        # Its media are told as content; in the value that the schema judges, their ids stand for them.
        return to_plain(native.value, Lifter())
    return reader.structured(native.value) if _is_value(native.value) else UNSET


def _stated(native: NativeOutput, reader: Reader, structured: Json | UnsetType) -> tuple[ContentItem, ...]:
    given = given_items(native)
    if given is not None:
        return tuple(each for item in given for each in reader.item(item))
    if structured is UNSET or structured is None:
        return ()
    return (text_item(structured if isinstance(structured, str) else encode(structured).decode()),)


def _is_failure(native: NativeOutput) -> bool:
    return native.is_error or native.error is not None


def _hold_to_schema(value: Json | UnsetType, check: Checker) -> None:
    if value is UNSET:
        raise failure("output has no structured content, but the tool declares output_schema; return a value for it")
    if check.accepts(value):
        return
    misfits = check.misfits(value)[:_MAX_MISFITS_TOLD]
    told = "; ".join(f"{each.pointer or 'the value'} must be {each.expected}" for each in misfits)
    raise failure(f"output does not fit output_schema: {told}; correct the tool or its schema", code="schema_misfit")


def _hold_to_content_types(
    items: tuple[ContentItem, ...], allowed: frozenset[ContentClass], *, has_structured: bool
) -> None:
    also = {ContentClass.TEXT} if has_structured and ContentClass.STRUCTURED_CONTENT in allowed else set[ContentClass]()
    strange = sorted({str(item.type) for item in items} - {*allowed, *also})
    if strange:
        declared = ", ".join(sorted(allowed))
        raise failure(
            f"output has content of class {', '.join(strange)}, but the tool declares {declared}; declare it, too",
            code="content_type_not_declared",
        )


def _hold_to_no_artifacts(native: NativeOutput, items: tuple[ContentItem, ...]) -> None:
    if native.artifact_refs or any(item.type is ContentClass.ARTIFACT_REF for item in items):
        raise failure(
            "output has artifacts, but the tool declares none; say so in its profile (supports_artifacts)",
            code="artifacts_not_declared",
        )


def _facts(partial: Partial) -> object:
    return {"succeeded": partial.succeeded, "failed": [{"item": e.item, "message": e.message} for e in partial.failed]}


def _error_of(native: NativeOutput, plan: MappingPlan, for_model: tuple[ContentItem, ...]) -> ToolError | None:
    if _is_failure(native):
        told = native.error or NativeError()
        words = next((item.text for item in for_model if item.text), "the tool reported an error")
        error = guided(
            told.error_class,
            phase=Phase.EXECUTE,
            message=told.message or words,
            code=told.error_code,
            effects=plan.effects,
        )
        return with_native_error(error, _plain_or_unset(told.native_error_ref), told.retry_after)
    partial = native.partial
    if partial is None or not partial.failed:
        return None
    error_class = ErrorClass.PARTIAL_FAILURE if partial.succeeded else ErrorClass.EXECUTION_FAILED
    count = len(partial.failed) + len(partial.succeeded)
    first = partial.failed[0]
    message = f"{len(partial.failed)} of {count} items failed; the first: {first.message}"
    return guided(error_class, phase=Phase.EXECUTE, message=message, effects=plan.effects)


def _result(
    native: NativeOutput, plan: MappingPlan, ids: CallIds, said: _Said, scrubber: Scrubber | None = None
) -> ToolResult:
    error = _error_of(native, plan, said.for_model)
    if error is not None:
        error = completed(error, scrubber)
    status = ResultStatus.SUCCEEDED if error is None else outcome_of(error).result_status
    is_empty = not said.for_model and error is None
    if is_empty and plan.empty_result_policy is EmptyResultPolicy.FAIL:
        raise failure("output is empty, and the tool declares that it never is; report the fault", code="empty_result")
    content, for_model = said.content, said.for_model
    if is_empty:
        for_model = (text_item(EMPTY_TEXT),)
    elif error is not None and not for_model:
        content = for_model = (text_item(told_to_model(error)),)
    return ToolResult(
        result_id=ids.result_id,
        invocation_id=ids.invocation_id,
        status=status,
        is_error=status.is_error,
        content=content,
        structured_content=said.structured,
        model_facing_content=for_model,
        empty_result=True if is_empty else None,
        ui_facing_summary=_hint(native.ui_facing_summary, plan.ui_facing_summary),
        ui_facing_rendering=_plain_or_unset(native.ui_facing_rendering),
        transcript_search_text=_hint(native.transcript_search_text, plan.transcript_search_text),
        resource_refs=native.resource_refs,
        artifact_refs=native.artifact_refs,
        evidence_refs=native.evidence_refs,
        telemetry_refs=native.telemetry_refs,
        summary=_hint(native.summary, None),
        redaction_state=said.state,
        error=error,
        external_mappings=native.external_mappings,
        created_at=ids.created_at,
    )


def _plain_or_unset(value: Json | UnsetType) -> Json | UnsetType:
    return value if value is UNSET else to_plain(value, NO_MEDIA)


def _hint(said: str | None, declared: str | None) -> str | None:
    text = declared if said is None else said
    return None if text is None else clean_message(text)


def _without_secrets(result: ToolResult, scrubber: Scrubber) -> ToolResult:
    """Mask secrets in all that was not read as content; content has been done, and names stored bytes by now."""
    bare = replace(result, content=None, model_facing_content=None, structured_content=UNSET)
    scrubbed = scrubber.part(bare)
    if scrubbed is bare:
        return result
    return replace(
        scrubbed,
        content=result.content,
        model_facing_content=result.model_facing_content,
        structured_content=result.structured_content,
        redaction_state=RedactionState.PARTIAL,
    )
