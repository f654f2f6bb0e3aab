"""Mapping of a tool's output to its result, exactly once per call.

`map_output` returns small plain outputs directly. Every other output takes the general path: media, models, schema,
redaction, errors and partial failures.
"""

from enum import Enum
from typing import NamedTuple

from agenttool.codec import clone, read, write
from agenttool.codec.visible_text import has_invisible
from agenttool.errors import RecordError
from agenttool.ports.output import NativeError, NativeOutput
from agenttool.ports.tool import OutputCheck
from agenttool.records import (
    UNSET,
    ContentClass,
    ContentItem,
    ErrorClass,
    InvocationId,
    Json,
    MutationId,
    Part,
    Phase,
    RedactionState,
    ResultId,
    ResultStatus,
    Timestamp,
    ToolError,
    ToolResult,
    UnsetType,
    plain_result,
    replace,
    text_item,
)
from agenttool.results.content import (
    Content,
    ContentReader,
    content_entries,
    is_content,
    is_empty_text,
    json_in,
)
from agenttool.results.failure import complete_error, error_text, guided, outcome_of
from agenttool.results.jsonable import (
    encode,
    encode_json,
    mapping_failure,
    refuse_long_text,
    refuse_many_values,
    reject_bytes,
    run_tool_code,
    to_jsonable,
)
from agenttool.results.mapping_plan import MappingPlan
from agenttool.results.media import find_media, may_hold_media
from agenttool.results.messages import clean_message
from agenttool.results.payloads import JSON, Payload
from agenttool.results.redaction import (
    MARKER,
    Redactor,
    Scrubber,
    compile_scrubber,
)
from agenttool.results.secret_forms import is_unicode
from agenttool.schema.compile import Checker

EMPTY_TEXT = "The tool succeeded and returned no output."
"""What a model reads of an empty result: empty is not missing (AT-PERS-14)."""

_MAX_REPORTED_MISFITS = 5
_EXACT = 2**53
"""Integers below this are exact for every reader of JSON."""
_INV = len("inv_")
_SCALARS = frozenset({str, int, float, bool})
_SUCCEEDED = ResultStatus.SUCCEEDED
_NOT_REDACTED = RedactionState.NONE
_EMPTY_CONTENT = (text_item(EMPTY_TEXT),)


class Mapped(Part, frozen=True, kw_only=True):
    """A result before it is stored.

    Attributes:
        payloads: the bytes that the refs of the result name.
        chars: the code points that a model would read, or those of the structured value if there are more.
        needs_decision: a persistence decision is needed even if the result is small.
        is_plain: it was made by `plain_result`.
    """

    result: ToolResult
    payloads: tuple[Payload, ...] = ()
    chars: int = 0
    needs_decision: bool = False
    is_plain: bool = False


class _OutputContent(NamedTuple):
    """The items of an output, what a model reads of them, and the structured value."""

    content: Content = ()
    for_model: Content = ()
    structured: Json | UnsetType = UNSET
    state: RedactionState = RedactionState.NONE


def map_output(  # noqa: PLR0913, PLR0917 -- on the path of every call, so without a record
    output: object,
    plan: MappingPlan,
    invocation_id: InvocationId,
    created_at: Timestamp,
    scrubber: Scrubber | None = None,
    mutation_refs: tuple[MutationId, ...] = (),
    levels: int = 0,
) -> Mapped:
    """Map the output of a tool to its result; `levels` is what `quick_levels` returned, 0 if it was not called.

    The same output gives the same bytes, also when the call is replayed (AT-PIPE-20). The payloads must be stored
    before the result is delivered.

    Raises:
        ToolFailure: result_mapping_failed; the tool ran, so a retry is not safe.
    """
    result_id: ResultId = "res_" + invocation_id[_INV:]  # pyright: ignore[reportAssignmentType] -- spares the call of a NewType
    if type(output) is int and -_EXACT < output < _EXACT and plan.takes_int:
        plain = str(output), output
    else:
        may_be_plain = plan.is_plain and (plan.kinds is None or type(output) in plan.kinds or _is_typed(output, plan))
        plain = _plain_output(output, plan, levels) if may_be_plain else None
    # What is escaped in a text may be a secret, too.
    if plain is None or (scrubber is not None and ("\\" in plain[0] or scrubber.text(plain[0]) is not plain[0])):
        empty = ToolResult(
            result_id=result_id,
            invocation_id=invocation_id,
            status=_SUCCEEDED,
            is_error=False,
            content=(),
            model_facing_content=_EMPTY_CONTENT,
            empty_result=True,
            redaction_state=_NOT_REDACTED,
            created_at=created_at,
        )
        if (
            output is None
            and plan.is_bare
            and not plan.fails_if_empty
            and (plan.kinds is None or type(None) in plan.kinds)
        ):
            return Mapped(result=empty, chars=len(EMPTY_TEXT))
        return measured(*_map_any(output, plan, empty, scrubber))
    text, structured = plain
    result = plain_result(text, structured, invocation_id, result_id, created_at, mutation_refs or None)
    if structured is UNSET and type(output) is not str:
        content = (ContentItem(type=ContentClass.TEXT, text=text, media_type=JSON),)
        return Mapped(result=replace(result, content=content, model_facing_content=content), chars=len(text))
    return Mapped(result=result, chars=len(text), is_plain=not mutation_refs)


def _is_typed(output: object, plan: MappingPlan) -> bool:
    """Return whether an output is a plain value that the declared type accepts, such as a literal."""
    return type(output) in _SCALARS and plan.output_check is not None and plan.output_check.accepts(output, output)


def _plain_output(output: object, plan: MappingPlan, levels: int) -> tuple[str, Json | UnsetType] | None:
    """Return the text and the structured value of a plain output; none if it needs the general path.

    A text without a schema has no structured value. Nor has a value whose text will be stored.
    """
    if type(output) is str:
        text = value = output
        refuse_long_text(len(text))
        if not text or not is_unicode(text) or find_media(text):
            return None
    else:
        found = encode_json(output, levels)
        if found is None or may_hold_media(found[0]):
            return None
        text, value = found[0].decode(), found[1]
    if has_invisible(text) or (plan.check is not None and not plan.check.accepts(value)):
        return None
    if type(output) is str:
        return text, UNSET if plan.check is None else text
    return text, UNSET if len(text) > plan.stored_above else clone(value) if value is output else value


def measured(result: ToolResult, payloads: tuple[Payload, ...] = ()) -> Mapped:
    """Return a result with the count of its characters."""
    model_chars = sum(len(item.text or "") + _json_chars(item.data) for item in result.model_facing_content or ())
    chars = max(model_chars, _json_chars(result.structured_content))
    needs_decision = bool(payloads) or result.redaction_state is not _NOT_REDACTED
    return Mapped(result=result, payloads=payloads, chars=chars, needs_decision=needs_decision)


def _json_chars(value: Json | UnsetType) -> int:
    return 0 if value is UNSET else len(encode(value).decode())


def _map_any(
    output: object, plan: MappingPlan, empty: ToolResult, scrubber: Scrubber | None
) -> tuple[ToolResult, tuple[Payload, ...]]:
    """Map any output.

    The finished record is written and read back. This validates the members that the tool filled in, and the result
    shares no object with the tool. The structured value is a copy already, and can be large.

    Raises:
        ToolFailure: result_mapping_failed.
    """
    native = run_tool_code(lambda each: _native(each, plan), output)
    redactor = plan.redactor
    if redactor is not None and redactor.is_whole:
        content = _OutputContent(for_model=(text_item(plan.fallback_summary or MARKER),), state=RedactionState.FULL)
        return _result(NativeOutput(is_error=native.is_error, value=MARKER), plan, empty, content), ()
    if redactor is not None:
        found = run_tool_code(lambda each: _sensitive_values(each, redactor), native)
        own = compile_scrubber(found)
        scrubber = own.merged_with(scrubber) if own is not None else scrubber
    reader = ContentReader(scrubber, plan.redactor, plan.stored_above)
    content = run_tool_code(lambda each: _read_content(each, plan, reader), native)
    if not plan.has_artifacts:
        _reject_artifacts(native, content.content)
    result = run_tool_code(lambda each: _result(each, plan, empty, content, scrubber), native)
    if scrubber is not None:
        result = _without_secrets(result, scrubber)
    try:
        return _checked(result), reader.payloads
    except (RecordError, TypeError, ValueError, RecursionError) as error:
        raise mapping_failure(f"output is not a valid result: {error}; fill NativeOutput as it is declared") from error


def _checked(result: ToolResult) -> ToolResult:
    """Return a result as it is read back, which makes it valid.

    Its value and the texts of its content are valid already, and can be long.

    Raises:
        RecordError, TypeError, ValueError, RecursionError: it is not valid.
    """
    contents = {"content": result.content or (), "model_facing_content": result.model_facing_content or ()}
    bare = {name: tuple(replace(item, text=None) for item in items) for name, items in contents.items()}
    checked = read(write(replace(result, structured_content=UNSET, **bare)), ToolResult)
    whole = {
        name: tuple(replace(item, text=old.text) for item, old in zip(getattr(checked, name), items, strict=True))
        for name, items in contents.items()
    }
    return replace(checked, structured_content=result.structured_content, **whole)


def _native(output: object, plan: MappingPlan) -> NativeOutput:
    mapped = output if plan.mapper is None else plan.mapper(output)
    refuse_many_values(mapped.value if isinstance(mapped, NativeOutput) else mapped)
    if isinstance(mapped, NativeOutput):
        return mapped
    if isinstance(mapped, str) and not isinstance(mapped, Enum):  # the type of an enum's member is checked
        return NativeOutput(value=str.__str__(mapped))  # a subclass, such as the safe string of a template library
    return NativeOutput(value=mapped)


def _sensitive_values(native: NativeOutput, redactor: Redactor) -> list[Json]:
    """Return the values at the sensitive places of an output, so that its other texts can be scrubbed of them."""
    reader = ContentReader()
    values = [reader.structured(each) for each in (native.structured_content, native.value) if _is_value(each)]
    for item in content_entries(native) or ():
        text = item.text if isinstance(item, ContentItem) else item
        values.append(json_in(text) if isinstance(text, str) else None)
        if isinstance(item, ContentItem) and item.data is not UNSET:
            values.append(reader.structured(item.data))
    return [secret for value in values for secret in redactor.find(value)]


def _is_value(value: object) -> bool:
    return not (value is UNSET or value is None or isinstance(value, str) or is_content(value))


def _read_content(native: NativeOutput, plan: MappingPlan, reader: ContentReader) -> _OutputContent:
    """Read the content and the structured value of an output.

    The schema checks the value as the tool returned it, before media and secrets are removed.
    """
    raw = _structured_value(native, reader, has_schema=plan.check is not None)
    if plan.check is not None and not _is_failure(native):
        _check_schema(raw, plan.check)
    elif plan.output_check is not None and not _is_failure(native) and native.content is None:
        _check_type(native.value, native.value if raw is UNSET else raw, plan.output_check)
    structured = raw if raw is UNSET else reader.cleaned(raw)
    items = _items_of(native, reader, structured)
    if plan.content_types is not None:
        _check_content_types(items, plan.content_types, has_structured=structured is not UNSET)
    facts: Json | UnsetType = UNSET
    if native.partial is not None:
        failed = [{"item": each.item, "message": each.message} for each in native.partial.failed]
        facts = reader.cleaned(reader.structured({"succeeded": native.partial.succeeded, "failed": failed}))
        items = (*items, ContentItem(type=ContentClass.STRUCTURED_CONTENT, name="partial", data=facts))
    for_model = [reader.for_model(item) for item in items if not is_empty_text(item)]
    # `for_model` can find more media, so the extracted items come last.
    for_model += [reader.for_model(item) for item in reader.items]
    return _OutputContent(
        content=(*items, *reader.items),
        for_model=tuple(for_model),
        structured=facts if structured is UNSET and plan.check is None else structured,
        state=RedactionState.PARTIAL if reader.has_masked else RedactionState.NONE,
    )


def _structured_value(native: NativeOutput, reader: ContentReader, *, has_schema: bool) -> Json | UnsetType:
    if native.structured_content is not UNSET:
        return reader.structured(native.structured_content)
    value = native.value
    if value is None or isinstance(value, str):
        return value if has_schema else UNSET
    if has_schema and is_content(value) and isinstance(value, list | tuple):
        # Its media are content; in the value that the schema checks, payload ids replace them.
        return ContentReader().structured(native.value)
    return reader.structured(native.value) if _is_value(native.value) else UNSET


def _items_of(native: NativeOutput, reader: ContentReader, structured: Json | UnsetType) -> Content:
    entries = content_entries(native)
    if entries is not None:
        return tuple(item for entry in entries for item in reader.item(entry))
    if structured is UNSET or structured is None:
        return ()
    return (text_item(structured if isinstance(structured, str) else encode(structured).decode()),)


def _is_failure(native: NativeOutput) -> bool:
    return native.is_error or native.error is not None


def _check_schema(value: Json | UnsetType, check: Checker) -> None:
    if value is UNSET:
        raise mapping_failure(
            "output has no structured content, but the tool declares output_schema; return a value for it"
        )
    if check.accepts(value):
        return
    misfits = check.misfits(value)[:_MAX_REPORTED_MISFITS]
    listed = "; ".join(f"{each.pointer or 'the value'} must be {each.expected}" for each in misfits)
    raise mapping_failure(
        f"output does not fit output_schema: {listed}; correct the tool or its schema", code="schema_misfit"
    )


def _check_type(output: object, value: object, check: OutputCheck) -> None:
    """Check an output without a schema, as the tool returned it or as JSON."""
    if output is not UNSET and not check.accepts(output, value):
        raise mapping_failure(
            f"output of the type {type(output).__name__} does not fit {check.declared}, which the tool declares that"
            " it returns; correct the tool or its annotation",
            code="schema_misfit",
        )


def _check_content_types(items: Content, allowed: frozenset[ContentClass], *, has_structured: bool) -> None:
    implied = has_structured and ContentClass.STRUCTURED_CONTENT in allowed
    also = {ContentClass.TEXT} if implied else set[ContentClass]()
    undeclared = sorted({str(item.type) for item in items} - {*allowed, *also})
    if undeclared:
        declared = ", ".join(sorted(allowed))
        raise mapping_failure(
            f"output has content of class {', '.join(undeclared)}, but the tool declares {declared}; declare it, too",
            code="content_type_not_declared",
        )


def _reject_artifacts(native: NativeOutput, items: Content) -> None:
    if native.artifact_refs or any(item.type is ContentClass.ARTIFACT_REF for item in items):
        raise mapping_failure(
            "output has artifacts, but the tool declares none; set supports_artifacts in its profile",
            code="artifacts_not_declared",
        )


def _error_of(native: NativeOutput, plan: MappingPlan, for_model: Content) -> ToolError | None:
    if _is_failure(native):
        reported = native.error or NativeError()
        first_text = next((item.text for item in for_model if item.text), "the tool reported an error")
        error = guided(
            reported.error_class,
            phase=Phase.EXECUTE,
            message=reported.message or first_text,
            code=reported.error_code,
            effects=plan.effects,
        )
        return replace(
            error, native_error_ref=_plain_or_unset(reported.native_error_ref), retry_after=reported.retry_after
        )
    partial = native.partial
    if partial is None or not partial.failed:
        return None
    error_class = ErrorClass.PARTIAL_FAILURE if partial.succeeded else ErrorClass.EXECUTION_FAILED
    count = len(partial.failed) + len(partial.succeeded)
    first = partial.failed[0]
    message = f"{len(partial.failed)} of {count} items failed; the first: {first.message}"
    return guided(error_class, phase=Phase.EXECUTE, message=message, effects=plan.effects)


def _result(
    native: NativeOutput, plan: MappingPlan, empty: ToolResult, found: _OutputContent, scrubber: Scrubber | None = None
) -> ToolResult:
    error = _error_of(native, plan, found.for_model)
    if error is not None:
        error = complete_error(error, scrubber)
    status = _SUCCEEDED if error is None else outcome_of(error).result_status
    is_empty = not found.for_model and error is None
    if is_empty and plan.fails_if_empty:
        raise mapping_failure(
            "output is empty, and the tool declares that it never is; report the fault", code="empty_result"
        )
    content, for_model = found.content, found.for_model or _EMPTY_CONTENT
    if error is not None and not found.for_model:
        content = for_model = (text_item(error_text(error)),)
    return replace(
        empty,
        status=status,
        is_error=status.is_error,
        content=content,
        structured_content=found.structured,
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
        redaction_state=found.state,
        error=error,
        external_mappings=native.external_mappings,
    )


def _plain_or_unset(value: Json | UnsetType) -> Json | UnsetType:
    return value if value is UNSET else to_jsonable(value, reject_bytes)


def _hint(given: str | None, declared: str | None) -> str | None:
    text = declared if given is None else given
    return None if text is None else clean_message(text)


def _without_secrets(result: ToolResult, scrubber: Scrubber) -> ToolResult:
    """Mask secrets in all members but the content, which is masked already and names payloads."""
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
