import dataclasses
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agenttool.codec import digest_of_bytes
from agenttool.ports.output import Media, NativeOutput
from agenttool.records import OutputContract, PersistenceStrategy, ToolInterface
from agenttool.results.persistence import (
    DEFAULT_POLICY,
    INLINE,
    SELF_BOUNDED_CHARS,
    PersistencePolicy,
    decide_persistence,
    policy_of,
)
from agenttool.results.plan import MappingPlan
from agenttool.results.redaction import compile_redactor


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


def test_a_large_json_value_is_stored_as_json_and_previewed_by_its_shape(mapped):
    value = [{"id": number} for number in range(9000)]
    plan = decide_persistence(mapped(value), DEFAULT_POLICY)
    assert json.loads(plan.payload.data) == value
    assert plan.payload.ref.media_type == "application/json"
    assert 'shape: array of 9000, each {"id": integer}' in plan.preview


def test_text_that_spells_json_is_previewed_by_its_shape(mapped):
    plan = decide_persistence(mapped(json.dumps(list(range(20_000)))), DEFAULT_POLICY)
    assert "shape: array of 20000, each integer" in plan.preview
    assert plan.payload.ref.media_type.startswith("text/plain")


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
    private = dataclasses.replace(
        DEFAULT_POLICY, always=PersistenceStrategy.REF_ONLY, over_limit=PersistenceStrategy.REF_ONLY
    )
    assert decide_persistence(mapped("small"), private).payload.data == b"small"
