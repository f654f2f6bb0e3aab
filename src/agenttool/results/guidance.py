"""The 27 error classes as one table: what each means for whoever might try again."""

from agenttool.records import ClosedEnum, ErrorClass, Part, Phase, Recoverability, RetryGuidance


class Effects(ClosedEnum):
    """Whether a call that failed so may have done something."""

    NEVER = "never"
    ONCE_STARTED = "once_started"
    ALWAYS = "always"


class Guidance(Part, frozen=True, kw_only=True):
    """One row: what the class says by default, and what a model should do next."""

    recoverability: Recoverability
    effects: Effects
    advice: str
    arguments_must_change: bool = False
    discovery_required: bool = False
    approval_required: bool = False
    caused_by_sibling: bool = False

    def retry(self, *, safe: bool) -> RetryGuidance:
        """Give all five facts, each said and none left open (AT-ERR-13)."""
        return RetryGuidance(
            safe=safe,
            arguments_must_change=self.arguments_must_change,
            discovery_required=self.discovery_required,
            approval_required=self.approval_required,
            caused_by_sibling=self.caused_by_sibling,
        )


_RETRYABLE = Recoverability.RETRYABLE
_ARGUMENTS = Recoverability.CHANGE_ARGUMENTS
_POLICY = Recoverability.CHANGE_ARGUMENTS_OR_POLICY
_DISCOVER = Recoverability.DISCOVER_FIRST
_NO = Recoverability.NOT_RECOVERABLE

GUIDANCE: dict[ErrorClass, Guidance] = {
    ErrorClass.UNKNOWN_TOOL: Guidance(
        recoverability=_DISCOVER,
        effects=Effects.NEVER,
        discovery_required=True,
        advice="search for a tool that does this, or call one of the listed tools by its exact name",
    ),
    ErrorClass.INVALID_ARGUMENTS: Guidance(
        recoverability=_ARGUMENTS,
        effects=Effects.NEVER,
        arguments_must_change=True,
        advice="correct the arguments and call again",
    ),
    ErrorClass.SCHEMA_VALIDATION_FAILED: Guidance(
        recoverability=_ARGUMENTS,
        effects=Effects.NEVER,
        arguments_must_change=True,
        advice="make the arguments fit the tool's schema and call again",
    ),
    ErrorClass.SCHEMA_NOT_LOADED: Guidance(
        recoverability=_DISCOVER,
        effects=Effects.NEVER,
        discovery_required=True,
        advice="load the tool's schema first, then call again",
    ),
    ErrorClass.PERMISSION_DENIED: Guidance(
        recoverability=_POLICY,
        effects=Effects.NEVER,
        arguments_must_change=True,
        advice="do it another way, or ask for the rule to be changed; the same call will be denied again",
    ),
    ErrorClass.APPROVAL_REJECTED: Guidance(
        recoverability=_POLICY,
        effects=Effects.NEVER,
        arguments_must_change=True,
        approval_required=True,
        advice="take the refusal into account; do not repeat the call unchanged",
    ),
    ErrorClass.POLICY_BLOCKED: Guidance(
        recoverability=_POLICY,
        effects=Effects.NEVER,
        arguments_must_change=True,
        advice="do it another way; policy forbids this call",
    ),
    ErrorClass.HOOK_BLOCKED: Guidance(
        recoverability=_POLICY,
        effects=Effects.ONCE_STARTED,
        arguments_must_change=True,
        advice="follow the reason given; do not repeat the call unchanged",
    ),
    ErrorClass.CAPABILITY_GAP: Guidance(
        recoverability=_NO,
        effects=Effects.NEVER,
        advice="use another tool; this setup cannot do it",
    ),
    ErrorClass.SETUP_REQUIRED: Guidance(
        recoverability=_NO,
        effects=Effects.NEVER,
        advice="ask for the tool to be set up, then call again",
    ),
    ErrorClass.CREDENTIAL_MISSING: Guidance(
        recoverability=_NO,
        effects=Effects.NEVER,
        advice="ask for the credential to be provided, then call again",
    ),
    ErrorClass.SANDBOX_VIOLATION: Guidance(
        recoverability=_ARGUMENTS,
        effects=Effects.ONCE_STARTED,
        arguments_must_change=True,
        advice="stay inside the sandbox: use other arguments",
    ),
    ErrorClass.TIMEOUT: Guidance(
        recoverability=_RETRYABLE,
        effects=Effects.ONCE_STARTED,
        advice="ask for less at once, or allow more time",
    ),
    ErrorClass.RATE_LIMITED: Guidance(
        recoverability=_RETRYABLE,
        effects=Effects.NEVER,
        advice="wait, then call again",
    ),
    ErrorClass.DEPENDENCY_UNAVAILABLE: Guidance(
        recoverability=_RETRYABLE,
        effects=Effects.ONCE_STARTED,
        advice="try again later, or use another tool",
    ),
    ErrorClass.EXECUTION_FAILED: Guidance(
        recoverability=_ARGUMENTS,
        effects=Effects.ONCE_STARTED,
        advice="read the message; correct the arguments or do it another way",
    ),
    ErrorClass.PARTIAL_FAILURE: Guidance(
        recoverability=_ARGUMENTS,
        effects=Effects.ALWAYS,
        arguments_must_change=True,
        advice="repeat only the items that failed",
    ),
    ErrorClass.RESULT_TOO_LARGE: Guidance(
        recoverability=_ARGUMENTS,
        effects=Effects.ALWAYS,
        arguments_must_change=True,
        advice="ask for less: narrow the query, or page through it",
    ),
    ErrorClass.RESULT_REDACTED: Guidance(
        recoverability=_NO,
        effects=Effects.ALWAYS,
        advice="go on without the output; it may not be shown",
    ),
    ErrorClass.SIBLING_CANCELED: Guidance(
        recoverability=_RETRYABLE,
        effects=Effects.ONCE_STARTED,
        caused_by_sibling=True,
        advice="deal with the call that failed first, then repeat this one if it is still wanted",
    ),
    ErrorClass.STREAMING_FALLBACK_DISCARDED: Guidance(
        recoverability=_RETRYABLE,
        effects=Effects.ONCE_STARTED,
        advice="repeat the call if it is still wanted",
    ),
    ErrorClass.CANCELED: Guidance(
        recoverability=_RETRYABLE,
        effects=Effects.ONCE_STARTED,
        advice="repeat the call only if it is still wanted",
    ),
    ErrorClass.BLOCKED_TOOL: Guidance(
        recoverability=_POLICY,
        effects=Effects.NEVER,
        advice="use another tool; this one is blocked here",
    ),
    ErrorClass.INPUT_MUTATION_FAILED: Guidance(
        recoverability=_POLICY,
        effects=Effects.NEVER,
        advice="nothing was run; write the arguments in the form the tool asks for, or report the fault",
    ),
    ErrorClass.HOOK_FAILED: Guidance(
        recoverability=_RETRYABLE,
        effects=Effects.NEVER,
        advice="nothing was run; try again once, then report the fault",
    ),
    ErrorClass.RESULT_MAPPING_FAILED: Guidance(
        recoverability=_NO,
        effects=Effects.ALWAYS,
        advice="the tool ran but its output cannot be read; report the fault",
    ),
    ErrorClass.POST_HOOK_FAILED: Guidance(
        recoverability=_NO,
        effects=Effects.ALWAYS,
        advice="the tool ran but a check after it failed; report the fault",
    ),
}
"""What each class means (G-59). A class is never safe to repeat because nobody said otherwise."""

UNLISTED = Guidance(
    recoverability=_NO,
    effects=Effects.ALWAYS,
    advice="report the fault",
)
"""How a class that nobody listed is read: at its most restrictive (AT-VER-07)."""

OF_CODE: dict[str | None, Guidance] = {
    "unknown_after_crash": Guidance(
        recoverability=_NO,
        effects=Effects.ALWAYS,
        advice="find out what the tool did, and do only what is left to do",
    ),
    "waits_for_answer": Guidance(
        recoverability=_NO,
        effects=Effects.ALWAYS,
        approval_required=True,
        advice="do not repeat the call: it goes on by itself once it is answered, and a second one would be done, too",
    ),
}
"""What errors of ours mean whose class alone would mislead."""


def guidance_of(error_class: ErrorClass, code: str | None) -> Guidance:
    """Find what an error means for whoever might try again."""
    return OF_CODE.get(code) or GUIDANCE.get(error_class, UNLISTED)


_ORDER = {phase: place for place, phase in enumerate(Phase)}


def has_started(phase: Phase | None) -> bool:
    """Tell whether the tool may already have run in this phase; an unknown phase counts as yes."""
    return phase is None or _ORDER[phase] >= _ORDER[Phase.EXECUTE]


def effects_possible(error_class: ErrorClass, phase: Phase | None) -> bool:
    """Tell whether a call that failed so, there, may have done something."""
    effects = GUIDANCE.get(error_class, UNLISTED).effects
    return effects is Effects.ALWAYS or (effects is Effects.ONCE_STARTED and has_started(phase))
