"""Errors with their guidance, and the result that each of them becomes."""

from agenttool.records import (
    OUTCOMES,
    UNSET,
    AbortReason,
    ErrorClass,
    InvocationId,
    InvocationStatus,
    Json,
    NextAction,
    Outcome,
    Phase,
    RedactionState,
    ResultId,
    Timestamp,
    ToolError,
    ToolResult,
    UnsetType,
    replace,
    text_item,
)
from agenttool.results.guidance import effects_possible, guidance_of, has_started
from agenttool.results.scrub import Scrubber
from agenttool.results.wording import clean_message, shorten

MAX_SUMMARY_CHARS = 200


def guided(
    error_class: ErrorClass,
    *,
    phase: Phase,
    message: str,
    code: str | None = None,
    abort_reason: AbortReason | None = None,
    effects: bool | None = None,
) -> ToolError:
    """Make an error with everything its class says about trying again.

    `effects` is for a caller who knows better than class and phase do: false for a tool that only reads or was never
    reached, true for one that surely ran. Further members, such as `retry_after`, are added with `replace`. The words
    stay as they are until `completed`: what is cut before it is scrubbed may keep half of a secret.
    """
    guidance = guidance_of(error_class, code)
    ran = effects_possible(error_class, phase) if effects is None else effects
    return ToolError(
        error_class=error_class,
        error_code=code or str(error_class),
        message=message or str(error_class),
        recoverability=guidance.recoverability,
        retry_after=None,
        retry=guidance.retry(safe=not ran),
        phase=phase,
        abort_reason=abort_reason,
    )


def completed(error: ToolError, scrubber: Scrubber | None = None) -> ToolError:
    """Fill in what whoever made an error left out; nothing they said is changed but the hygiene of its words.

    Secrets go first, while they are still whole; and once more at the end, for those that only the cleaning joined.
    """
    filled = _filled(error if scrubber is None else scrubber.part(error))
    return filled if scrubber is None else scrubber.part(filled)


def _filled(error: ToolError) -> ToolError:
    known_phase = _phase_of(error)
    guidance = guidance_of(error.error_class, error.error_code)
    default_retry = guidance.retry(safe=not effects_possible(error.error_class, known_phase))
    return replace(
        error,
        error_code=error.error_code or str(error.error_class),
        message=clean_message(error.message or "") or str(error.error_class),
        recoverability=error.recoverability or guidance.recoverability,
        retry_after=None if error.retry_after is UNSET else error.retry_after,
        retry=error.retry or default_retry,
        abort_reason=error.abort_reason or outcome_of(error).abort_reason,
    )


def outcome_of(error: ToolError) -> Outcome:
    """Find the row of the outcome table that an error ends in.

    The class alone does not say it for two of them: a hook's stop is a refusal before the tool ran and a failure after
    (G-27), and a cancellation tells who wanted it. What is missing once the tool has started is a plain failure,
    because a call that ran was not blocked. A class that nobody listed is a plain failure, too.
    """
    started = error.phase is not None and has_started(_phase_of(error))
    rows = _OUTCOMES_OF.get(error.error_class, [_PLAIN_FAILURE])
    if error.error_class is ErrorClass.HOOK_BLOCKED:
        rows = [row for row in rows if row.effects_happened == started]
    found = next((row for row in rows if row.abort_reason == error.abort_reason), rows[0])
    return _PLAIN_FAILURE if started and found.invocation_status is InvocationStatus.BLOCKED else found


def result_of_failure(
    error: ToolError,
    *,
    result_id: ResultId,
    invocation_id: InvocationId,
    created_at: Timestamp,
    scrubber: Scrubber | None = None,
) -> ToolResult:
    """Make the one result of a call that failed, whoever failed it and wherever.

    What the model reads says what went wrong and what to do next, and nothing of how we are built.
    """
    said, error = error, completed(error, scrubber)
    is_scrubbed = scrubber is not None and scrubber.part(said) is not said
    outcome = outcome_of(error)
    content = (text_item(told_to_model(error)),)
    return ToolResult(
        result_id=result_id,
        invocation_id=invocation_id,
        status=outcome.result_status,
        is_error=outcome.result_status.is_error,
        content=content,
        model_facing_content=content,
        policy_refs=error.policy_refs,
        evidence_refs=error.evidence_refs,
        summary=summary_of(error),
        redaction_state=RedactionState.PARTIAL if is_scrubbed else RedactionState.NONE,
        abort_reason=AbortReason(error.abort_reason) if error.abort_reason else None,
        error=error,
        created_at=created_at,
    )


def told_to_model(error: ToolError) -> str:
    """Say in a few lines what went wrong, whether it may have taken effect, and what to do next."""
    guidance = guidance_of(error.error_class, error.error_code)
    lines = [f"{error.error_class}: {error.message or error.error_class}"]
    if error.retry is not None and error.retry.safe is False:
        lines.append("The call may have taken effect: check before you repeat it.")
    is_awaited = error.next_action == NextAction.WAIT_FOR_PROVIDER
    advice = f"Next: {_WAIT if is_awaited else guidance.advice}."
    if isinstance(error.retry_after, int | float):
        advice += f" Wait {error.retry_after:g} seconds first."
    return "\n".join([*lines, advice])


_WAIT = "wait until its provider has said what it offers, then search for the tool and call it if it is there"


def summary_of(error: ToolError) -> str:
    """Give one short line for lists of calls."""
    first_line = (error.message or "").partition("\n")[0]
    return shorten(f"{error.error_class}: {first_line}", MAX_SUMMARY_CHARS)


def with_native_error(error: ToolError, native_error_ref: Json | UnsetType, retry_after: float | None) -> ToolError:
    """Add what the native side said: its own error, and how long it wants us to wait."""
    return replace(error, native_error_ref=native_error_ref, retry_after=retry_after)


def _phase_of(error: ToolError) -> Phase | None:
    return Phase(error.phase) if error.phase in _PHASES else None


_PHASES = frozenset(Phase)
_OUTCOMES_OF = {
    error_class: [row for row in OUTCOMES if error_class in row.error_classes] for error_class in ErrorClass
}
_PLAIN_FAILURE = _OUTCOMES_OF[ErrorClass.EXECUTION_FAILED][0]
