"""Errors with their retry guidance, and the result that each error becomes."""

from typing import NamedTuple

from agenttool.records import (
    OUTCOMES,
    UNSET,
    AbortReason,
    ClosedEnum,
    ErrorClass,
    InvocationId,
    InvocationStatus,
    NextAction,
    Outcome,
    Phase,
    Recoverability,
    RedactionState,
    ResultId,
    RetryGuidance,
    Timestamp,
    ToolError,
    ToolResult,
    replace,
    text_item,
)
from agenttool.results.messages import clean_message, shorten
from agenttool.results.redaction import Scrubber, scrubbed_message

_MAX_SUMMARY_CHARS = 200

MAX_SCRUBBED_CHARS = 10_000
"""How many characters of an error message are searched for secrets and stack traces."""


class Effects(ClosedEnum):
    """Whether a call that failed with a class may have had effects."""

    NEVER = "never"
    ONCE_STARTED = "once_started"
    ALWAYS = "always"


class Guidance(NamedTuple):
    """One row of the guidance table: the defaults of a class, and the advice for a model."""

    recoverability: Recoverability
    effects: Effects
    advice: str
    arguments_may_stay: bool = False
    approval_required: bool = False
    caused_by_sibling: bool = False

    def retry(self, *, safe: bool) -> RetryGuidance:
        """Return all five retry facts, none of them unset (AT-ERR-13)."""
        return RetryGuidance(
            safe=safe,
            arguments_must_change=self.recoverability in (_ARGUMENTS, _POLICY) and not self.arguments_may_stay,
            discovery_required=self.recoverability is _DISCOVER,
            approval_required=self.approval_required,
            caused_by_sibling=self.caused_by_sibling,
        )


_NEVER, _ONCE_STARTED, _ALWAYS = Effects.NEVER, Effects.ONCE_STARTED, Effects.ALWAYS
_RETRYABLE = Recoverability.RETRYABLE
_ARGUMENTS = Recoverability.CHANGE_ARGUMENTS
_POLICY = Recoverability.CHANGE_ARGUMENTS_OR_POLICY
_DISCOVER = Recoverability.DISCOVER_FIRST
_NO = Recoverability.NOT_RECOVERABLE

GUIDANCE: dict[ErrorClass, Guidance] = {
    ErrorClass.UNKNOWN_TOOL: Guidance(
        _DISCOVER, _NEVER, "search for a tool that does this, or call one of the listed tools by its exact name"
    ),
    ErrorClass.INVALID_ARGUMENTS: Guidance(_ARGUMENTS, _NEVER, "correct the arguments and call again"),
    ErrorClass.SCHEMA_VALIDATION_FAILED: Guidance(
        _ARGUMENTS, _NEVER, "make the arguments fit the tool's schema and call again"
    ),
    ErrorClass.SCHEMA_NOT_LOADED: Guidance(_DISCOVER, _NEVER, "load the tool's schema first, then call again"),
    ErrorClass.PERMISSION_DENIED: Guidance(
        _POLICY, _NEVER, "do it another way, or ask for the rule to be changed; the same call will be denied again"
    ),
    ErrorClass.APPROVAL_REJECTED: Guidance(
        _POLICY, _NEVER, "take the refusal into account; do not repeat the call unchanged", approval_required=True
    ),
    ErrorClass.POLICY_BLOCKED: Guidance(_POLICY, _NEVER, "do it another way; policy forbids this call"),
    ErrorClass.HOOK_BLOCKED: Guidance(
        _POLICY, _ONCE_STARTED, "follow the reason given; do not repeat the call unchanged"
    ),
    ErrorClass.CAPABILITY_GAP: Guidance(_NO, _NEVER, "use another tool; this setup cannot do it"),
    ErrorClass.SETUP_REQUIRED: Guidance(_NO, _NEVER, "ask for the tool to be set up, then call again"),
    ErrorClass.CREDENTIAL_MISSING: Guidance(_NO, _NEVER, "ask for the credential to be provided, then call again"),
    ErrorClass.SANDBOX_VIOLATION: Guidance(_ARGUMENTS, _ONCE_STARTED, "stay inside the sandbox: use other arguments"),
    ErrorClass.TIMEOUT: Guidance(_RETRYABLE, _ONCE_STARTED, "ask for less at once, or allow more time"),
    ErrorClass.RATE_LIMITED: Guidance(_RETRYABLE, _NEVER, "wait, then call again"),
    ErrorClass.DEPENDENCY_UNAVAILABLE: Guidance(_RETRYABLE, _ONCE_STARTED, "try again later, or use another tool"),
    ErrorClass.EXECUTION_FAILED: Guidance(
        _ARGUMENTS,
        _ONCE_STARTED,
        "read the message; correct the arguments or do it another way",
        arguments_may_stay=True,
    ),
    ErrorClass.PARTIAL_FAILURE: Guidance(_ARGUMENTS, _ALWAYS, "repeat only the items that failed"),
    ErrorClass.RESULT_TOO_LARGE: Guidance(_ARGUMENTS, _ALWAYS, "ask for less: narrow the query, or page through it"),
    ErrorClass.RESULT_REDACTED: Guidance(_NO, _ALWAYS, "continue without the output; it may not be shown"),
    ErrorClass.SIBLING_CANCELED: Guidance(
        _RETRYABLE,
        _ONCE_STARTED,
        "deal with the call that failed first, then repeat this one if it is still wanted",
        caused_by_sibling=True,
    ),
    ErrorClass.STREAMING_FALLBACK_DISCARDED: Guidance(
        _RETRYABLE, _ONCE_STARTED, "repeat the call if it is still wanted"
    ),
    ErrorClass.CANCELED: Guidance(_RETRYABLE, _ONCE_STARTED, "repeat the call only if it is still wanted"),
    ErrorClass.BLOCKED_TOOL: Guidance(
        _POLICY, _NEVER, "use another tool; this one is blocked here", arguments_may_stay=True
    ),
    ErrorClass.INPUT_MUTATION_FAILED: Guidance(
        _POLICY,
        _NEVER,
        "nothing was run; write the arguments in the form the tool asks for, or report the fault",
        arguments_may_stay=True,
    ),
    ErrorClass.HOOK_FAILED: Guidance(_RETRYABLE, _NEVER, "nothing was run; try again once, then report the fault"),
    ErrorClass.RESULT_MAPPING_FAILED: Guidance(
        _NO, _ALWAYS, "the tool ran but its output cannot be read; report the fault"
    ),
    ErrorClass.POST_HOOK_FAILED: Guidance(_NO, _ALWAYS, "the tool ran but a check after it failed; report the fault"),
}
"""The guidance of each class (G-59). A class counts as unsafe to repeat unless its row says otherwise."""

_UNLISTED = Guidance(_NO, _ALWAYS, "report the fault")
"""The guidance of an unknown class: the most restrictive one (AT-VER-07)."""

GUIDANCE_BY_CODE: dict[str | None, Guidance] = {
    "unknown_after_crash": Guidance(_NO, _ALWAYS, "find out what the tool did, and do only what is left to do"),
    "invalid_executor": Guidance(_NO, _ONCE_STARTED, "report the fault to the tool's author; use another tool"),
    "waits_for_answer": Guidance(
        _NO,
        _ALWAYS,
        "do not repeat the call: it continues by itself, and a second call would run, too",
        approval_required=True,
    ),
    "runtime_closed": Guidance(_NO, _NEVER, "report that the tools have been stopped, and that the call did not run"),
}
"""Guidance for error codes of the runtime whose class alone would mislead."""

_STOPS = {
    AbortReason.USER_INTERRUPTION: (ErrorClass.CANCELED, None, "the call was canceled by its user"),
    AbortReason.RUNTIME_SHUTDOWN: (
        ErrorClass.CANCELED,
        "runtime_shutdown",
        "the runtime shut down before the call was over",
    ),
    AbortReason.FALLBACK: (
        ErrorClass.STREAMING_FALLBACK_DISCARDED,
        None,
        "the request that made this call was discarded and sent again",
    ),
}
_WAIT_ADVICE = "wait until its provider has listed its tools, then search for the tool and call it if it is there"
_PHASE_ORDER = {phase: place for place, phase in enumerate(Phase)}
_OUTCOMES_OF = {
    error_class: [row for row in OUTCOMES if error_class in row.error_classes] for error_class in ErrorClass
}
_PLAIN_FAILURE = _OUTCOMES_OF[ErrorClass.EXECUTION_FAILED][0]


def guidance_of(error_class: ErrorClass, code: str | None) -> Guidance:
    """Return the guidance of an error code, else that of its class."""
    return GUIDANCE_BY_CODE.get(code) or GUIDANCE.get(error_class, _UNLISTED)


def has_started(phase: Phase | None) -> bool:
    """Return whether the tool may have run in this phase; true for an unknown phase."""
    return phase is None or _PHASE_ORDER[phase] >= _PHASE_ORDER[Phase.EXECUTE]


def effects_possible(error_class: ErrorClass, phase: Phase | None) -> bool:
    """Return whether a call that failed with this class in this phase may have had effects."""
    effects = GUIDANCE.get(error_class, _UNLISTED).effects
    return effects is Effects.ALWAYS or (effects is Effects.ONCE_STARTED and has_started(phase))


def guided(
    error_class: ErrorClass,
    *,
    phase: Phase,
    message: str,
    code: str | None = None,
    abort_reason: AbortReason | None = None,
    effects: bool | None = None,
) -> ToolError:
    """Return an error with the retry guidance of its class.

    `effects` overrides class and phase: false for a tool that only reads or was never reached, true for one that
    ran. Other members, such as `retry_after`, are added with `replace`. The message stays as it is until
    `complete_error`: a message that is cut before it is scrubbed could show half of a secret.
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


def stopped_by(reason: AbortReason, phase: Phase, *, effects: bool | None = None) -> ToolError:
    """Return the error of a call that its user, a shutdown or a fallback of its request stopped."""
    error_class, code, message = _STOPS[reason]
    if reason is AbortReason.RUNTIME_SHUTDOWN and phase is Phase.RESOLVE_TOOL:
        code, message = "runtime_closed", "this runtime is closed, so the call did not start"
    return guided(error_class, phase=phase, message=message, code=code, abort_reason=reason, effects=effects)


def complete_error(error: ToolError, scrubber: Scrubber | None = None) -> ToolError:
    """Return the error with its unset members filled in and its message cleaned.

    Secrets are masked first, while they are whole, and again at the end, because cleaning can join two halves.
    """
    return _completed(error, scrubber)[0]


def _completed(error: ToolError, scrubber: Scrubber | None) -> tuple[ToolError, bool]:
    """Return the complete error, and whether a secret was masked in it."""
    if error.message is not None and len(error.message) > MAX_SCRUBBED_CHARS:
        error = replace(error, message=scrubbed_message(error.message, scrubber, MAX_SCRUBBED_CHARS))
    masked = error if scrubber is None else scrubber.part(error)
    guidance = guidance_of(masked.error_class, masked.error_code)
    default_retry = guidance.retry(safe=not effects_possible(masked.error_class, _phase_of(masked)))
    whole = replace(
        masked,
        error_code=masked.error_code or str(masked.error_class),
        message=clean_message(masked.message or "") or str(masked.error_class),
        recoverability=masked.recoverability or guidance.recoverability,
        retry_after=None if masked.retry_after is UNSET else masked.retry_after,
        retry=masked.retry or default_retry,
        abort_reason=masked.abort_reason or outcome_of(masked).abort_reason,
    )
    return whole if scrubber is None else scrubber.part(whole), masked is not error


def outcome_of(error: ToolError) -> Outcome:
    """Return the row of the outcome table that an error leads to.

    Two classes have several rows: a hook's stop is a refusal before the tool ran and a failure after it (G-27), and a
    cancellation depends on its abort reason. An error that would block a call is a plain failure once the tool has
    started. An unknown class is a plain failure, too.
    """
    started = error.phase is not None and has_started(_phase_of(error))
    rows = _OUTCOMES_OF.get(error.error_class, [_PLAIN_FAILURE])
    if error.error_class is ErrorClass.HOOK_BLOCKED:
        rows = [row for row in rows if row.effects_happened == started]
    found = next((row for row in rows if row.abort_reason == error.abort_reason), rows[0])
    return _PLAIN_FAILURE if started and found.invocation_status is InvocationStatus.BLOCKED else found


def _phase_of(error: ToolError) -> Phase | None:
    return Phase(error.phase) if error.phase in _PHASE_ORDER else None


def result_of_failure(
    error: ToolError,
    *,
    result_id: ResultId,
    invocation_id: InvocationId,
    created_at: Timestamp,
    scrubber: Scrubber | None = None,
) -> ToolResult:
    """Return the one result of a call that failed; its content is `error_text`."""
    error, is_scrubbed = _completed(error, scrubber)
    outcome = outcome_of(error)
    content = (text_item(error_text(error)),)
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


def error_text(error: ToolError) -> str:
    """Return what a model reads: what went wrong, whether it may have had effects, and what to do next."""
    guidance = guidance_of(error.error_class, error.error_code)
    lines = [f"{error.error_class}: {error.message or error.error_class}"]
    if error.retry is not None and error.retry.safe is False and has_started(_phase_of(error)):
        lines.append("The call may have taken effect: check before you repeat it.")
    waits_for_provider = error.next_action == NextAction.WAIT_FOR_PROVIDER
    advice = f"Next: {_WAIT_ADVICE if waits_for_provider else guidance.advice}."
    if isinstance(error.retry_after, int | float):
        advice += f" Wait {error.retry_after:g} seconds first."
    return "\n".join([*lines, advice])


def summary_of(error: ToolError) -> str:
    """Return one short line for lists of calls."""
    first_line = (error.message or "").partition("\n")[0]
    return shorten(f"{error.error_class}: {first_line}", _MAX_SUMMARY_CHARS)
