import dataclasses
import json
import threading

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agenttool.codec import digest_of_bytes, write
from agenttool.ports.output import Media, NativeError, NativeOutput
from agenttool.records import (
    ContentClass,
    ContentItem,
    ErrorClass,
    OutputContract,
    PersistenceStrategy,
    Phase,
    ResultPersistence,
    ToolInterface,
    replace,
)
from agenttool.results.failure import guided, result_of_failure
from agenttool.results.mapping import measured
from agenttool.results.mapping_plan import MappingPlan
from agenttool.results.persistence import (
    INLINE,
    SELF_BOUNDED_CHARS,
    PersistencePolicy,
    apply_plan,
    decide_persistence,
    native_payloads,
    policy_of,
)
from agenttool.results.redaction import compile_redactor, compile_scrubber

DEFAULT_POLICY = PersistencePolicy()


def interface(**members):
    return ToolInterface(interface_id="i", tool_id="t", **members)


@pytest.mark.requirement("AT-IO-17")
@pytest.mark.parametrize(
    ("policy", "text", "threshold"),
    [
        (DEFAULT_POLICY, "x" * 29_999, None),
        (DEFAULT_POLICY, "x" * 30_000, None),
        (DEFAULT_POLICY, "x" * 30_001, {"max_inline_chars": 30_000}),
        (PersistencePolicy(max_inline_chars=10), "ä" * 10, None),
        (PersistencePolicy(max_inline_chars=10), "ä" * 11, {"max_inline_chars": 10}),
        (PersistencePolicy(max_inline_bytes=20), "ä" * 10, None),
        (PersistencePolicy(max_inline_bytes=20), "ä" * 10 + "x", {"max_inline_bytes": 20}),
        (PersistencePolicy(max_inline_chars=5, max_inline_bytes=5), "ä" * 5, {"max_inline_bytes": 5}),
        (PersistencePolicy(max_inline_chars=5, max_inline_bytes=5), "ä" * 6, {"max_inline_chars": 5}),
    ],
)
def test_at_the_limit_is_not_over_it_and_the_first_limit_exceeded_counts(mapped, policy, text, threshold):
    plan = decide_persistence(mapped(text), policy)
    assert plan.threshold == threshold
    if threshold is None:
        assert plan is INLINE
    else:
        assert (plan.strategy, plan.reason) == ("preview_and_persist", "result_exceeded_inline_limit")


def test_the_structured_value_counts_too_when_the_model_reads_less(mapped):
    output = NativeOutput(structured_content=["x" * 100], content=())
    assert decide_persistence(mapped(output), PersistencePolicy(max_inline_chars=50)).threshold == {
        "max_inline_chars": 50
    }


def test_user_ask_4_a_large_text_is_stored_whole_and_previewed(mapped):
    text = "\n".join(f"row {number}" for number in range(10_000))
    plan = decide_persistence(mapped(text), DEFAULT_POLICY)
    assert plan.payload.data == text.encode()
    assert (plan.payload.ref.digest, plan.payload.ref.size_bytes) == (digest_of_bytes(text.encode()), len(text))
    assert plan.payload.ref.media_type == "text/plain; charset=utf-8"
    assert len(plan.preview) <= 4000
    assert plan.payload.ref.id in plan.preview.splitlines()[-1]


def test_a_large_json_value_is_stored_as_json_and_previewed(mapped):
    value = [{"id": number} for number in range(9000)]
    plan = decide_persistence(mapped(value), DEFAULT_POLICY)
    assert json.loads(plan.payload.data) == value
    assert plan.payload.ref.media_type == "application/json"
    assert '[{"id":0},{"id":1}' in plan.preview
    assert '{"id":8999}]' in plan.preview


@pytest.mark.parametrize(
    ("strategy", "size", "expected", "stores", "fails"),
    [
        ("preview_and_persist", 5, "inline", False, None),
        ("preview_and_persist", 500, "preview_and_persist", True, None),
        ("ref_only", 5, "ref_only", True, None),
        ("ref_only", 500, "ref_only", True, None),
        ("never_persist", 5, "never_persist", False, None),
        ("never_persist", 500, "never_persist", False, "result_too_large"),
        ("drop_with_reason", 5, "inline", False, None),
        ("drop_with_reason", 500, "drop_with_reason", False, "result_too_large"),
        ("self_bounding", 500, "inline", False, None),
        ("inline", 500, "inline", False, None),
        ("urn:some:policy", 500, "preview_and_persist", True, None),
    ],
)
def test_a_policy_decides_what_is_stored_and_when_nothing_can_be_delivered(
    mapped, strategy, size, expected, stores, fails
):
    policy = policy_of(interface(persistence_policy_ref=strategy, max_inline_chars=100))
    plan = decide_persistence(mapped("x" * size), policy)
    assert (plan.strategy, plan.payload is not None) == (expected, stores)
    assert (plan.error and plan.error.error_class) == fails


def test_nothing_delivered_after_effects_is_not_safe_to_repeat_unless_the_tool_only_reads(mapped):
    policy = policy_of(interface(persistence_policy_ref="drop_with_reason", max_inline_chars=1))
    assert decide_persistence(mapped("xx"), policy).error.retry.safe is False
    reading = policy_of(interface(persistence_policy_ref="drop_with_reason", max_inline_chars=1, is_read_only=True))
    assert decide_persistence(mapped("xx"), reading).error.retry.safe is True


def test_redacted_in_part_is_delivered_and_redacted_whole_is_not(mapped):
    part = mapped({"token": "abcdef", "n": 1}, MappingPlan(redactor=compile_redactor(["token"])))
    whole = mapped({"token": "abcdef", "n": 1}, MappingPlan(redactor=compile_redactor([""])))
    assert decide_persistence(part, DEFAULT_POLICY).strategy == "redact"
    assert decide_persistence(part, DEFAULT_POLICY).error is None
    plan = decide_persistence(whole, DEFAULT_POLICY)
    assert (plan.strategy, plan.error.error_class, plan.reason) == ("redact", "result_redacted", "fully_redacted")


def test_what_is_stored_of_a_large_redacted_result_is_redacted(mapped):
    part = mapped({"token": "abcdef", "n": "x" * 500}, MappingPlan(redactor=compile_redactor(["token"])))
    plan = decide_persistence(part, PersistencePolicy(max_inline_chars=100))
    assert plan.strategy == "preview_and_persist"
    assert b"abcdef" not in plan.payload.data
    assert plan.payload.ref.redaction_state == "partial"


@pytest.mark.requirement("AT-PERS-12")
def test_media_that_may_not_be_stored_cannot_be_delivered(mapped):
    policy = policy_of(interface(persistence_policy_ref="never_persist"))
    plan = decide_persistence(mapped(Media(b"\x00" * 100)), policy)
    assert (plan.stores_media, plan.error.error_class) == (False, "result_too_large")


@pytest.mark.requirement("AT-PERS-15")
def test_reading_back_what_was_stored_never_stores_it_again(mapped):
    text = "line\n" * 20_000
    stored = decide_persistence(mapped(text), DEFAULT_POLICY).payload
    read_back = policy_of(interface(persistence_policy_ref="self_bounding"))
    for _ in range(3):
        plan = decide_persistence(mapped(stored.data.decode()), read_back)
        assert (plan.strategy, plan.payload, plan.reason) == ("inline", None, "self_bounding_tool")
    # And should another tool give the same bytes back, they are the same payload.
    assert decide_persistence(mapped(stored.data.decode()), DEFAULT_POLICY).payload.ref.id == stored.ref.id


def test_a_tool_that_breaks_its_promise_to_bound_itself_is_stopped(mapped):
    read_back = policy_of(interface(persistence_policy_ref="self_bounding"))
    plan = decide_persistence(mapped("x" * (SELF_BOUNDED_CHARS + 1)), read_back)
    assert (plan.strategy, plan.payload, plan.error.error_class) == ("drop_with_reason", None, "result_too_large")


@pytest.mark.requirement("AT-IFACE-14")
def test_a_limit_moves_only_the_tool_that_declares_it(mapped):
    small = policy_of(interface(max_inline_chars=10))
    other = policy_of(interface())
    assert decide_persistence(mapped("x" * 11), small).strategy == "preview_and_persist"
    assert decide_persistence(mapped("x" * 11), other) is INLINE


def test_of_two_limits_the_smaller_counts():
    policy = policy_of(interface(max_inline_chars=500), OutputContract(max_inline_chars=50, max_inline_bytes=70))
    assert (policy.max_inline_chars, policy.max_inline_bytes) == (50, 70)


@given(st.text(max_size=300), st.integers(0, 300), st.integers(0, 300) | st.none())
def test_inline_means_within_every_limit(mapped, text, max_chars, max_bytes):
    found = mapped(text)
    plan = decide_persistence(found, PersistencePolicy(max_inline_chars=max_chars, max_inline_bytes=max_bytes))
    shown = "".join(item.text for item in found.result.model_facing_content)
    fits = len(shown) <= max_chars and (max_bytes is None or len(shown.encode()) <= max_bytes)
    assert (plan.strategy == "inline") == fits


def test_a_policy_can_be_tightened_for_one_call(mapped):
    private = dataclasses.replace(DEFAULT_POLICY, over_limit=PersistenceStrategy.REF_ONLY)
    assert decide_persistence(mapped("small"), private).payload.data == b"small"


SMALL = PersistencePolicy(max_inline_chars=100)


def delivered(found, policy, *, is_stored=True):
    plan = decide_persistence(found, policy)
    ref = replace(plan.payload.ref, uri="mem:1") if plan.payload is not None and is_stored else None
    return apply_plan(plan, found.result, ref, decision_id="prs_1", created_at="2026-05-08T00:00:02Z")


@pytest.mark.requirement("AT-PERS-09", "AT-PERS-11", "AT-PERS-13")
def test_user_ask_4_a_large_result_is_a_success_with_a_preview_and_a_way_back(mapped, misfits, published_misfits):
    text = "\n".join(f"row {number}" for number in range(1000))
    found = mapped(text)
    result, decision = delivered(found, SMALL)
    payload = decide_persistence(found, SMALL).payload
    shown = result.model_facing_content[0].text
    assert decision == ResultPersistence(
        decision_id="prs_1",
        invocation_id="inv_1",
        result_id="res_1",
        strategy=PersistenceStrategy.PREVIEW_AND_PERSIST,
        threshold={"max_inline_chars": 100},
        original_size_bytes=len(text),
        preview_size_bytes=len(shown.encode()),
        persisted_ref=replace(payload.ref, uri="mem:1"),
        redaction_state="none",
        reason="result_exceeded_inline_limit",
        created_at="2026-05-08T00:00:02Z",
    )
    assert (result.status, result.is_error, result.persistence_refs) == ("succeeded", False, ("prs_1",))
    assert result.content == (
        ContentItem(
            type=ContentClass.PERSISTED_OUTPUT_REF,
            ref=replace(payload.ref, uri="mem:1"),
            media_type=payload.ref.media_type,
        ),
    )
    assert "row 0" in shown
    assert "row 999" in shown
    assert payload.ref.id in shown
    assert misfits(result) == misfits(decision) == published_misfits(result) == published_misfits(decision) == []


@pytest.mark.requirement("AT-PERS-10", "AT-PERS-12")
@pytest.mark.parametrize("strategy", list(PersistenceStrategy))
def test_every_strategy_leaves_the_bytes_where_it_says(mapped, strategy, misfits):
    marker = "MARKER-OUTPUT"
    size = 5 if strategy in ("inline", "redact", "never_persist") else 500
    plan = MappingPlan(redactor=compile_redactor(["token"])) if strategy == "redact" else MappingPlan()
    value = {"token": "TOKEN-VALUE", "text": marker, "pad": "x" * size}
    policy = PersistencePolicy(
        over_limit=PersistenceStrategy.PREVIEW_AND_PERSIST if strategy in ("inline", "redact") else strategy,
        max_inline_chars=100,
    )
    found = mapped(value, plan)
    result, decision = delivered(found, policy)
    payload = decide_persistence(found, policy).payload
    in_result, in_store = marker in write(result).decode(), payload is not None and marker.encode() in payload.data
    assert decision.strategy == strategy
    assert (in_result, in_store) == {
        "inline": (True, False),
        "preview_and_persist": (True, True),
        "ref_only": (False, True),
        "redact": (True, False),
        "drop_with_reason": (False, False),
        "never_persist": (True, False),
    }[strategy]
    assert ("TOKEN-VALUE" in write(result).decode()) == (strategy in ("inline", "never_persist", "preview_and_persist"))
    assert decision.reason or strategy == "inline"
    assert misfits(result) == misfits(decision) == []
    assert result.is_error == result.status.is_error


@pytest.mark.requirement("AT-RES-09")
def test_nothing_to_deliver_is_too_large_or_redacted(mapped):
    dropped, _ = delivered(
        mapped("x" * 500), PersistencePolicy(max_inline_chars=100, over_limit=PersistenceStrategy.DROP_WITH_REASON)
    )
    assert (dropped.status, dropped.error.error_class) == ("too_large", "result_too_large")
    withheld, decision = delivered(mapped({"a": "SECRET"}, MappingPlan(redactor=compile_redactor([""]))), SMALL)
    assert (withheld.status, withheld.redaction_state) == ("redacted", "full")
    assert (withheld.error.error_class, decision.redaction_state) == ("result_redacted", "full")
    assert b"SECRET" not in write(withheld)


@pytest.mark.requirement("AT-IO-18")
def test_the_fallback_summary_stands_in_for_what_is_withheld(mapped):
    policy = PersistencePolicy(fallback_summary="customer data, ask support")
    found = mapped(
        {"a": 1}, MappingPlan(redactor=compile_redactor([""]), fallback_summary="customer data, ask support")
    )
    result, _ = delivered(found, policy)
    assert result.model_facing_content[0].text.startswith("customer data, ask support\n")


def test_media_and_refs_stay_beside_a_preview(mapped):
    image = Media(b"\x89PNG\r\n\x1a\n" + bytes(50), "image/png")
    found = mapped(NativeOutput(value="x " * 500, content=(image,)))
    result, _ = delivered(found, SMALL)
    assert [item.type for item in result.content] == ["persisted_output_ref", "image"]
    assert [item.type for item in result.model_facing_content] == ["text", "image"]


def test_text_and_a_structured_value_are_stored_as_one_document(mapped):
    found = mapped(NativeOutput(structured_content={"n": 1}, content=(ContentItem(type="log", text="y" * 500),)))
    plan = decide_persistence(found, SMALL)
    document = json.loads(plan.payload.data)
    assert document["structured_content"] == {"n": 1}
    assert document["content"][0] == {"type": "log", "text": "y" * 500}


def test_what_no_store_would_take_is_not_persistable(mapped):
    result, decision = delivered(mapped("x" * 500), SMALL, is_stored=False)
    assert (result.status, result.error.error_code) == ("too_large", "not_persistable")
    assert (decision.strategy, decision.reason, decision.persisted_ref) == ("drop_with_reason", "not_persistable", None)


def test_a_failed_call_with_much_to_say_stays_failed(mapped):
    found = mapped(NativeOutput(value="stderr " * 100, error=NativeError(message="exit 1")))
    result, _ = delivered(found, SMALL)
    assert (result.status, result.error.message) == ("failed", "exit 1")
    dropped, _ = delivered(
        found, PersistencePolicy(max_inline_chars=100, over_limit=PersistenceStrategy.DROP_WITH_REASON)
    )
    assert (dropped.status, dropped.error.message, dropped.content) == ("failed", "exit 1", ())


def test_an_inline_decision_can_be_put_on_record_and_changes_nothing_else(mapped):
    found = mapped("hello")
    result, decision = apply_plan(INLINE, found.result, None, decision_id="prs_1", created_at="now")
    assert result.content == found.result.content
    assert (decision.strategy, decision.original_size_bytes) == ("inline", 5)


def test_a_failure_is_delivered_like_any_result():
    error = guided(ErrorClass.TIMEOUT, phase=Phase.EXECUTE, message="too slow")
    failed = result_of_failure(error, result_id="res_1", invocation_id="inv_1", created_at="now")
    assert decide_persistence(measured(failed), PersistencePolicy()) is INLINE


@pytest.mark.requirement("AT-IFACE-16")
def test_a_tool_that_opts_out_is_on_record_as_inline_and_another_as_stored(mapped):
    found = mapped("x" * 500)
    _, stored = delivered(found, SMALL)
    _, inline = delivered(found, PersistencePolicy(max_inline_chars=100, self_bounding=True))
    assert (stored.strategy, stored.persisted_ref.size_bytes, stored.preview_size_bytes > 0) == (
        "preview_and_persist",
        500,
        True,
    )
    assert (inline.strategy, inline.persisted_ref, inline.preview_size_bytes) == ("inline", None, None)
    assert stored.threshold == inline.threshold == {"max_inline_chars": 100}


@pytest.mark.requirement("AT-IFACE-30")
def test_five_outputs_stay_apart_also_when_the_payload_is_stored(mapped):
    plan = MappingPlan(ui_facing_summary="UI-LABEL", transcript_search_text="SEARCH-WORDS")
    found = mapped(NativeOutput(value={"rows": ["r" * 50] * 20}, ui_facing_rendering={"card": "UI-CARD"}), plan)
    result, decision = delivered(found, SMALL)
    stored = decide_persistence(found, SMALL).payload.data
    written = stored + str((result.content, result.model_facing_content, found.result.structured_content)).encode()
    assert not any(hint in written for hint in (b"UI-LABEL", b"UI-CARD", b"SEARCH-WORDS"))
    assert (result.ui_facing_summary, result.transcript_search_text) == ("UI-LABEL", "SEARCH-WORDS")
    assert decision.persisted_ref == result.content[0].ref


def test_native_output_that_could_not_be_mapped_is_stored_as_far_as_possible():
    [payload] = native_payloads({"ok": 1, "lock": threading.Lock()})
    assert json.loads(payload.data) == {"ok": 1, "lock": "[lock, not readable]"}
    assert (payload.ref.media_type, payload.ref.relation) == ("application/json", "native_output_of_call")


def test_a_stored_copy_is_redacted_too():
    value = {"user": {"pin": "4321"}, "echo": "hunter2!"}
    output = NativeOutput(value=value, content=(Media(b"\x00hunter2!"),))
    scrubber = compile_scrubber(["hunter2!"])
    [payload] = native_payloads(output, redactor=compile_redactor(["user.pin"]), scrubber=scrubber)
    assert json.loads(payload.data) == {"value": {"user": {"pin": "[redacted]"}, "echo": "[redacted]"}}
    stored = native_payloads(output, scrubber=scrubber)
    assert all(b"hunter2!" not in each.data for each in stored)
    assert len(stored) == 2
