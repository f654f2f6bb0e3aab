import base64
import json
import re
from urllib.parse import quote, quote_plus

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agenttool.codec import write
from agenttool.ports.output import FailedItem, Media, NativeError, NativeOutput, Partial
from agenttool.records import ErrorClass, Phase, Ref, ResultStatus, ToolResult
from agenttool.results.failure import guided, result_of_failure
from agenttool.results.plan import MappingPlan
from agenttool.results.redaction import MARKER, compile_redactor
from agenttool.results.scrub import compile_scrubber, scrub
from agenttool.results.wording import clean_message

SECRET = 'p@ss "wörd"/+='  # noqa: S105 -- nobody's
SPELLINGS = {
    "clear": SECRET,
    "quoted": quote(SECRET, safe=""),
    "quoted path": quote(SECRET),
    "form": quote_plus(SECRET),
    "lower hex": re.sub("%..", lambda found: found[0].lower(), quote(SECRET, safe="")),
    "json": json.dumps(SECRET)[1:-1],
    "json unicode": json.dumps(SECRET, ensure_ascii=False)[1:-1],
    "json twice": json.dumps(json.dumps(SECRET))[3:-3],
    "base64": base64.b64encode(SECRET.encode()).decode(),
    "base64 url": base64.urlsafe_b64encode(SECRET.encode()).decode().rstrip("="),
    "repr": repr(SECRET)[1:-1],
}


@pytest.mark.parametrize("spelling", SPELLINGS.values(), ids=SPELLINGS)
def test_user_ask_19_a_secret_is_masked_in_every_spelling(spelling):
    text = f"tried {spelling}!"
    assert scrub(text, [SECRET]).rstrip("=!") in (f"tried {MARKER}", f"tried {MARKER}A")
    assert spelling not in scrub(text, [SECRET])


@given(st.binary(max_size=4), st.binary(max_size=4))
def test_a_secret_is_found_inside_of_longer_base64(before, after):
    coded = base64.b64encode(before + b"correct-horse-battery" + after).decode()
    masked = scrub(coded, ["correct-horse-battery"])
    assert MARKER in masked
    assert len(masked) < len(coded)


def test_short_values_flags_and_nothing_are_not_looked_for():
    assert compile_scrubber(["abc", "", "    ", True, None, 12, "redact"]) is None
    assert scrub("abc True None 12", ["abc", True, None, 12]) == "abc True None 12"


def test_numbers_and_everything_inside_a_sensitive_value_are_secrets():
    scrubber = compile_scrubber([{"pin": 482913, "keys": ["first-key", {"x": "second-key"}]}])
    value = {"a": 482913, "b": "pin 482913", "c": ["first-key"], "second-key": 1, "d": True, "e": 7}
    assert scrubber.value(value) == {"a": MARKER, "b": f"pin {MARKER}", "c": [MARKER], MARKER: 1, "d": True, "e": 7}


def test_what_is_clean_is_shared():
    value = {"a": [1, "two"]}
    part = Ref(id="x", uri="https://example.org")
    scrubber = compile_scrubber(["long secret"])
    assert scrubber.value(value) is value
    assert scrubber.part(part) is part
    assert scrubber.data(b"clean") == b"clean"


def test_listed_words_ids_and_names_of_stored_bytes_are_left_alone():
    scrubber = compile_scrubber(["succeeded", "res_12", "sha256:abcd"])
    result = ToolResult(
        result_id="res_12",
        invocation_id="inv_1",
        status=ResultStatus.SUCCEEDED,
        summary="succeeded as res_12",
        resource_refs=(Ref(id="payload:sha256:abcd", uri="https://x/?k=sha256:abcd"),),
        created_at="now",
    )
    scrubbed = scrubber.part(result)
    assert (scrubbed.result_id, scrubbed.status, scrubbed.summary) == ("res_12", "succeeded", f"{MARKER} as {MARKER}")
    assert scrubbed.resource_refs == (Ref(id="payload:sha256:abcd", uri=f"https://x/?k={MARKER}"),)


MARK = "MARKER-SECRET-1234"


@pytest.mark.requirement("AT-RES-13")
@given(
    st.sampled_from([MARK, base64.b64encode(MARK.encode()).decode(), f"token={MARK}&x", json.dumps({"k": MARK})]),
    st.sampled_from(["input", "output"]),
)
def test_user_ask_19_a_marker_secret_reaches_no_representation(mapped, spelled, origin):
    output = NativeOutput(
        value={"password": MARK, "echo": [spelled], spelled: 1},
        content=(
            Media(f"file with {spelled}".encode(), "text/plain", f"{spelled}.txt"),
            Media(b"\x00" + spelled.encode(), "image/png"),
        ),
        resource_refs=(Ref(id="r", uri=f"https://example.org/?q={spelled}", title=spelled),),
        partial=Partial(succeeded=(spelled,), failed=(FailedItem(item=spelled, message=spelled),)),
        summary=spelled,
        ui_facing_summary=spelled,
        ui_facing_rendering={"card": spelled},
        transcript_search_text=spelled,
        error=NativeError(message=spelled, error_code="e", native_error_ref={"said": spelled}),
    )
    is_input = origin == "input"
    plan = MappingPlan() if is_input else MappingPlan(redactor=compile_redactor(["password"]))
    found = mapped(output, plan, compile_scrubber([MARK]) if is_input else None)
    told = write(found.result) + b"".join(payload.data for payload in found.payloads)
    assert MARK.encode() not in told
    assert base64.b64encode(MARK.encode())[:20] not in told
    assert found.result.redaction_state == "partial"


@given(
    st.text(st.characters(categories=["L", "N", "P", "S"]), min_size=4, max_size=20).filter(
        lambda text: text not in MARKER
    )
)
def test_user_ask_19_the_message_of_a_failure_does_not_repeat_a_secret(secret):
    shown = clean_message(f"<<{secret}>>")
    error = guided(
        ErrorClass.INVALID_ARGUMENTS, phase=Phase.VALIDATE_VALUES, message=f"cannot log in with <<{secret}>> today"
    )
    result = result_of_failure(
        error,
        result_id="res_1",
        invocation_id="inv_1",
        created_at="now",
        scrubber=compile_scrubber([secret]),
    )
    assert shown not in result.error.message
    assert shown not in result.model_facing_content[0].text
    assert shown not in result.summary
    assert (result.status, result.redaction_state) == (ResultStatus.FAILED, "partial")


def test_two_scrubbers_mask_the_secrets_of_both():
    both = compile_scrubber(["first secret"]).and_also(compile_scrubber(["second secret"]))
    assert both.text("first secret, second secret") == f"{MARKER}, {MARKER}"
    assert both.and_also(None) is both
