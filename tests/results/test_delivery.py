import json

import pytest

from agenttool.codec import write
from agenttool.ports.output import Media, NativeError, NativeOutput
from agenttool.records import ContentClass, ContentItem, ErrorClass, PersistenceStrategy, Phase, ResultPersistence
from agenttool.results.delivery import apply_plan
from agenttool.results.failure import guided, result_of_failure
from agenttool.results.mapping import measured
from agenttool.results.persistence import INLINE, PersistencePolicy, decide_persistence
from agenttool.results.plan import MappingPlan
from agenttool.results.redaction import compile_redactor
from agenttool.results.refs import stored_at

SMALL = PersistencePolicy(max_inline_chars=100)


def delivered(found, policy, *, is_stored=True):
    plan = decide_persistence(found, policy)
    ref = stored_at(plan.payload, "mem:1") if plan.payload is not None and is_stored else None
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
        persisted_ref=stored_at(payload, "mem:1"),
        redaction_state="none",
        reason="result_exceeded_inline_limit",
        created_at="2026-05-08T00:00:02Z",
    )
    assert (result.status, result.is_error, result.persistence_refs) == ("succeeded", False, ("prs_1",))
    assert result.content == (
        ContentItem(
            type=ContentClass.PERSISTED_OUTPUT_REF, ref=stored_at(payload, "mem:1"), media_type=payload.ref.media_type
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
        always=strategy if strategy in ("never_persist", "ref_only") else None,
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
    told = stored + str((result.content, result.model_facing_content, found.result.structured_content)).encode()
    assert not any(hint in told for hint in (b"UI-LABEL", b"UI-CARD", b"SEARCH-WORDS"))
    assert (result.ui_facing_summary, result.transcript_search_text) == ("UI-LABEL", "SEARCH-WORDS")
    assert decision.persisted_ref == result.content[0].ref
