import pytest

from agenttool.codec import to_json
from agenttool.records import (
    OUTCOMES,
    AbortReason,
    ErrorClass,
    Phase,
    Recoverability,
    ResultStatus,
    RetryGuidance,
    ToolError,
    ToolResult,
    replace,
    text_item,
)
from agenttool.results.failure import (
    GUIDANCE,
    GUIDANCE_BY_CODE,
    Effects,
    complete_error,
    effects_possible,
    error_text,
    guided,
    has_started,
    outcome_of,
    result_of_failure,
    stopped_by,
)

ARISES_IN = {
    "resolve_tool": "unknown_tool blocked_tool schema_not_loaded",
    "parse_schema": "schema_validation_failed",
    "validate_values": "invalid_arguments setup_required sandbox_violation capability_gap credential_missing",
    "prepare_observable_input": "input_mutation_failed",
    "pre_hooks": "hook_blocked hook_failed",
    "permission": "permission_denied approval_rejected policy_blocked",
    "schedule": "canceled sibling_canceled streaming_fallback_discarded",
    "execute": "execution_failed timeout dependency_unavailable rate_limited partial_failure",
    "map_result": "result_mapping_failed",
    "post_hooks": "post_hook_failed hook_blocked",
    "persist_result": "result_too_large result_redacted",
}


def phase_of(error_class, *, ran=False):
    """Return the phase that such an error arises in; the last one if the tool must have run."""
    phases = [Phase(phase) for phase, classes in ARISES_IN.items() if error_class in classes.split()]
    return phases[-1 if ran else 0]


def failed(error, **more):
    return result_of_failure(error, result_id="res_1", invocation_id="inv_1", created_at="2026-05-08T00:00:01Z", **more)


def example(error_class):
    return guided(error_class, phase=phase_of(error_class), message="it did not work, got 'x'; try 'y'")


def test_a_failure_is_a_result_with_everything_needed_to_continue():
    error = guided(ErrorClass.PERMISSION_DENIED, phase=Phase.PERMISSION, message="writes under .secrets are denied")
    error = replace(error, policy_refs=("policy:files",))
    words = (
        text_item(
            "permission_denied: writes under .secrets are denied\n"
            "Next: do it another way, or ask for the rule to be changed; the same call will be denied again."
        ),
    )
    assert failed(error) == ToolResult(
        result_id="res_1",
        invocation_id="inv_1",
        status=ResultStatus.DENIED,
        is_error=True,
        content=words,
        model_facing_content=words,
        policy_refs=("policy:files",),
        summary="permission_denied: writes under .secrets are denied",
        redaction_state="none",
        error=ToolError(
            error_class=ErrorClass.PERMISSION_DENIED,
            error_code="permission_denied",
            message="writes under .secrets are denied",
            recoverability=Recoverability.CHANGE_ARGUMENTS_OR_POLICY,
            retry_after=None,
            retry=RetryGuidance(
                safe=True,
                arguments_must_change=True,
                discovery_required=False,
                approval_required=False,
                caused_by_sibling=False,
            ),
            phase="permission",
            policy_refs=("policy:files",),
        ),
        created_at="2026-05-08T00:00:01Z",
    )


@pytest.mark.requirement("AT-ERR-01")
@pytest.mark.parametrize("error_class", list(ErrorClass))
def test_user_ask_28_every_class_has_a_code_a_message_and_all_retry_facts(error_class, misfits, published_misfits):
    result = failed(example(error_class))
    error = to_json(result)["error"]
    assert error["error_class"] == error["error_code"] == error_class
    assert error["message"] == "it did not work, got 'x'; try 'y'"
    assert error["recoverability"] in list(Recoverability)
    assert error["retry_after"] is None
    assert set(error["retry"]) == {
        "safe",
        "arguments_must_change",
        "discovery_required",
        "approval_required",
        "caused_by_sibling",
    }
    assert GUIDANCE[error_class].advice in result.model_facing_content[0].text
    assert result.is_error == result.status.is_error
    assert misfits(result) == published_misfits(result) == []


@pytest.mark.parametrize("outcome", [each for each in OUTCOMES if each.error_classes], ids=lambda each: each.name)
def test_every_row_of_the_outcome_table_is_reached_by_its_error(outcome):
    for error_class in outcome.error_classes:
        phase = phase_of(error_class, ran=outcome.effects_happened)
        error = guided(error_class, phase=phase, message="no", abort_reason=outcome.abort_reason)
        assert outcome_of(error) == outcome
        assert failed(error).abort_reason == outcome.abort_reason
        if outcome.effects_happened:
            assert error.retry.safe is False


@pytest.mark.requirement("AT-ERR-13")
@pytest.mark.parametrize(
    ("error_class", "facts"),
    [
        (ErrorClass.SCHEMA_VALIDATION_FAILED, {"safe": True, "arguments_must_change": True}),
        (ErrorClass.SCHEMA_NOT_LOADED, {"safe": True, "discovery_required": True}),
        (ErrorClass.APPROVAL_REJECTED, {"safe": True, "arguments_must_change": True, "approval_required": True}),
        (ErrorClass.SIBLING_CANCELED, {"safe": True, "caused_by_sibling": True}),
        (ErrorClass.RATE_LIMITED, {"safe": True}),
    ],
)
def test_retry_guidance_says_what_has_to_happen_first(error_class, facts):
    error = replace(example(error_class), retry_after=30.0)
    written = to_json(failed(error).error)
    assert {name for name, fact in written["retry"].items() if fact} == {name for name, fact in facts.items() if fact}
    assert written["retry_after"] == 30.0
    assert "Wait 30 seconds" in failed(error).model_facing_content[0].text


def test_a_call_that_may_have_run_is_not_safe_to_repeat_and_the_text_says_so():
    error = guided(ErrorClass.TIMEOUT, phase=Phase.EXECUTE, message="took longer than 30 s")
    assert error.retry.safe is False
    assert "may have taken effect" in failed(error).model_facing_content[0].text
    reading = guided(ErrorClass.TIMEOUT, phase=Phase.EXECUTE, message="took longer than 30 s", effects=False)
    assert reading.retry.safe is True
    assert "may have taken effect" not in failed(reading).model_facing_content[0].text


def test_a_hook_that_stops_a_call_refuses_it_before_and_fails_it_after():
    before = failed(guided(ErrorClass.HOOK_BLOCKED, phase=Phase.PRE_HOOKS, message="no"))
    after = failed(guided(ErrorClass.HOOK_BLOCKED, phase=Phase.POST_HOOKS, message="no"))
    assert (before.status, before.error.retry.safe) == (ResultStatus.DENIED, True)
    assert (after.status, after.error.retry.safe) == (ResultStatus.FAILED, False)


def test_what_is_missing_once_the_tool_runs_is_a_failure_not_a_block():
    error = guided(ErrorClass.CREDENTIAL_MISSING, phase=Phase.EXECUTE, message="401")
    assert (outcome_of(error).invocation_status, outcome_of(error).result_status) == ("failed", "failed")


def test_what_another_room_left_out_is_filled_in_and_what_it_said_stays():
    bare = complete_error(ToolError(error_class=ErrorClass.TIMEOUT))
    assert bare == ToolError(
        error_class=ErrorClass.TIMEOUT,
        error_code="timeout",
        message="timeout",
        recoverability=Recoverability.RETRYABLE,
        retry_after=None,
        retry=RetryGuidance(
            safe=False,
            arguments_must_change=False,
            discovery_required=False,
            approval_required=False,
            caused_by_sibling=False,
        ),
        abort_reason="timeout",
    )
    said = ToolError(error_class=ErrorClass.TIMEOUT, retry=RetryGuidance(safe=True), retry_after=3.0, phase="odd")
    assert (complete_error(said).retry, complete_error(said).retry_after) == (RetryGuidance(safe=True), 3.0)


def test_an_unlisted_class_is_a_plain_failure():
    error = guided(ErrorClass("meteor_strike"), phase=Phase.EXECUTE, message="boom")
    result = failed(error)
    assert (result.status, result.is_error, error.recoverability, error.retry.safe) == (
        ResultStatus.FAILED,
        True,
        Recoverability.NOT_RECOVERABLE,
        False,
    )


@pytest.mark.parametrize(
    "error_class",
    [
        ErrorClass.PERMISSION_DENIED,
        ErrorClass.APPROVAL_REJECTED,
        ErrorClass.UNKNOWN_TOOL,
        ErrorClass.SCHEMA_VALIDATION_FAILED,
        ErrorClass.SIBLING_CANCELED,
        ErrorClass.STREAMING_FALLBACK_DISCARDED,
    ],
)
def test_user_ask_14_an_error_result_names_its_class_and_its_call(error_class):
    result = failed(example(error_class))
    assert (result.is_error, result.error.error_class, result.invocation_id) == (True, error_class, "inv_1")
    assert result.model_facing_content[0].text


def test_an_unlisted_abort_reason_is_preserved():
    error = guided(ErrorClass.CANCELED, phase=Phase.EXECUTE, message="no", abort_reason=AbortReason("eclipse"))
    assert (failed(error).status, failed(error).abort_reason) == (ResultStatus.CANCELED, "eclipse")


@pytest.mark.parametrize("code", GUIDANCE_BY_CODE)
def test_what_is_known_of_an_error_goes_before_what_its_class_says(code):
    error = guided(ErrorClass.EXECUTION_FAILED, phase=Phase.EXECUTE, message="it stopped", code=code, effects=True)
    assert (error.recoverability, error.retry.safe) == ("not_recoverable", False)
    assert GUIDANCE_BY_CODE[code].advice in error_text(error)
    assert GUIDANCE[ErrorClass.EXECUTION_FAILED].advice not in error_text(error)


def test_every_class_has_its_row_and_every_row_its_advice():
    assert set(GUIDANCE) == set(ErrorClass)
    assert len(GUIDANCE) == 27
    assert all(row.advice and not row.advice.endswith(".") for row in GUIDANCE.values())


def test_the_table_agrees_with_the_outcomes_about_what_has_run():
    for outcome in OUTCOMES:
        for error in outcome.error_classes:
            if outcome.effects_happened:
                assert GUIDANCE[error].effects is not Effects.NEVER, error


@pytest.mark.parametrize("phase", list(Phase)[:7])
def test_nothing_has_run_before_execute(phase):
    assert not has_started(phase)
    assert not effects_possible(ErrorClass.CANCELED, phase)


@pytest.mark.parametrize("phase", [*list(Phase)[7:], None])
def test_from_execute_on_or_in_an_unknown_phase_it_may_have_run(phase):
    assert has_started(phase)
    assert effects_possible(ErrorClass.TIMEOUT, phase)
    assert not effects_possible(ErrorClass.RATE_LIMITED, phase)


def test_an_unlisted_class_gets_the_strictest_guidance():
    assert effects_possible(ErrorClass("meteor_strike"), Phase.RESOLVE_TOOL)


EVERY = {
    "user": (ResultStatus.CANCELED, "canceled", AbortReason.USER_INTERRUPTION),
    "fallback": (ResultStatus.DISCARDED, "streaming_fallback_discarded", AbortReason.FALLBACK),
    "shutdown": (ResultStatus.SYNTHETIC_ERROR, "canceled", AbortReason.RUNTIME_SHUTDOWN),
}


@pytest.mark.parametrize("phase", [Phase.SCHEDULE, Phase.EXECUTE])
@pytest.mark.parametrize(("status", "error_class", "abort"), EVERY.values(), ids=EVERY)
def test_user_ask_14_a_call_that_never_answered_ends_in_a_result(status, error_class, abort, phase, misfits):
    error = stopped_by(abort, phase)
    result = result_of_failure(error, result_id="res_1", invocation_id="inv_1", created_at="2026-05-08T00:00:01Z")
    assert (result.status, result.is_error, result.abort_reason) == (status, True, abort)
    assert (result.error.error_class, result.error.abort_reason) == (error_class, abort)
    assert misfits(result) == []
    assert error.retry.safe is (phase is Phase.SCHEDULE)
    assert result.model_facing_content[0].text
