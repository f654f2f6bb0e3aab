import base64
import copy
import json
import re
import traceback
from urllib.parse import quote, quote_plus

import pytest
from hypothesis import given
from hypothesis import strategies as st
from strategies import json_values

from agenttool.codec import write
from agenttool.ports.output import FailedItem, Media, NativeError, NativeOutput, Partial
from agenttool.records import ErrorClass, Phase, Ref, ResultStatus, ToolResult
from agenttool.results import redaction
from agenttool.results.failure import guided, result_of_failure
from agenttool.results.mapping_plan import MappingPlan
from agenttool.results.messages import MAX_MESSAGE_CHARS, clean_message, shorten
from agenttool.results.persistence import native_payloads
from agenttool.results.redaction import (
    MARKER,
    compile_redactor,
    compile_scrubber,
)


@pytest.mark.parametrize(
    ("path", "before", "after"),
    [
        ("password", {"password": "x", "n": 1}, {"password": MARKER, "n": 1}),
        ("password", {"a": [{"password": {"deep": 1}}]}, {"a": [{"password": MARKER}]}),
        ("user.token", {"user": {"token": 1}, "token": 2}, {"user": {"token": MARKER}, "token": 2}),
        ("user.token", {"user.token": 1}, {"user.token": MARKER}),
        ("user.token", {"user": [{"token": 1}]}, {"user": [{"token": MARKER}]}),
        ("/user/token", {"user": {"token": 1}, "token": 2}, {"user": {"token": MARKER}, "token": 2}),
        ("/a~1b/m~0n", {"a/b": {"m~n": 1}}, {"a/b": {"m~n": MARKER}}),
        ("keys.*.secret", {"keys": [{"secret": 1, "id": 2}]}, {"keys": [{"secret": MARKER, "id": 2}]}),
        ("keys[*].secret", {"keys": [{"secret": 1, "id": 2}]}, {"keys": [{"secret": MARKER, "id": 2}]}),
        ("keys[1]", {"keys": ["a", "b"]}, {"keys": ["a", MARKER]}),
        ("/keys/*", {"keys": ["a", "b"]}, {"keys": [MARKER, MARKER]}),
        ("/by_name/*/pin", {"by_name": {"ann": {"pin": 1}}}, {"by_name": {"ann": {"pin": MARKER}}}),
        ("$.password", {"password": "x"}, {"password": MARKER}),
        ("user.token", [{"user": {"token": 1}}], [{"user": {"token": MARKER}}]),
        ("", {"a": 1}, MARKER),
        ("absent", {"a": 1}, {"a": 1}),
        ("a", "just text", "just text"),
    ],
)
def test_a_sensitive_place_is_named_in_any_of_the_usual_ways(path, before, after):
    untouched = copy.deepcopy(before)
    assert compile_redactor([path]).redact(before) == after
    assert before == untouched


def test_a_tool_without_sensitive_places_has_no_redactor():
    assert compile_redactor([]) is None
    assert compile_redactor(None) is None


def test_only_what_changes_is_copied():
    value = {"a": {"big": [1, 2, 3]}, "password": "x"}
    redacted = compile_redactor(["password"]).redact(value)
    assert redacted["a"] is value["a"]
    clean = {"a": [1, {"b": 2}]}
    assert compile_redactor(["password", "a.c"]).redact(clean) is clean


def test_the_values_at_sensitive_places_can_be_collected():
    redactor = compile_redactor(["password", "keys.*.secret"])
    value = {"password": {"x": 1}, "keys": [{"secret": "s1"}, {"secret": "s2"}], "n": 1}
    assert sorted(map(str, redactor.find(value))) == ["s1", "s2", "{'x': 1}"]
    assert compile_redactor([""]).find({"a": 1}) == [{"a": 1}]


def test_a_value_too_deep_to_look_through_is_sensitive_as_a_whole():
    deep = {"password": "found"}
    for _ in range(5000):
        deep = {"a": deep}
    redactor = compile_redactor(["password"])
    assert redactor.redact(deep) == MARKER
    assert redactor.find(deep)[0] is deep


def test_a_text_that_spells_json_is_redacted_as_json(mapped):
    plan = MappingPlan(redactor=compile_redactor(["token"]))
    result = mapped('{"token": "abcd-efgh", "n": 1}', plan).result
    assert result.model_facing_content[0].text == '{"token":"[redacted]","n":1}'
    assert result.redaction_state == "partial"
    assert mapped("no token here", plan).result.redaction_state == "none"


def test_bytes_at_a_sensitive_place_are_neither_shown_nor_stored(mapped):
    photo = b"\x89PNG\r\n\x1a\n" + bytes(90)
    redactor = compile_redactor(["photo"])
    for value in ({"photo": photo}, {"photo": {"raw": [photo]}}, NativeOutput(structured_content={"photo": photo})):
        found = mapped(value, MappingPlan(redactor=redactor))
        assert found.payloads == ()
        assert found.result.structured_content == {"photo": MARKER}
        assert [item.type for item in found.result.content] == ["text"]
    assert [payload.ref.media_type for payload in native_payloads({"photo": photo}, redactor=redactor)] == [
        "application/json"
    ]


@st.composite
def documents_with_a_secret(draw):
    """A JSON object with a marker secret somewhere under a sensitive name."""
    document = draw(st.dictionaries(st.text(max_size=5), json_values(), max_size=3))
    spot = document
    for name in draw(st.lists(st.sampled_from(["a", "b", "c"]), max_size=3)):
        inner = {}
        spot[name] = draw(st.sampled_from([inner, [inner], [1, inner]]))
        spot = inner
    spot["password"] = draw(st.sampled_from(["MARKER-SECRET", ["MARKER-SECRET"], {"x": "MARKER-SECRET"}]))
    return document


@given(documents_with_a_secret())
def test_a_marker_secret_at_a_sensitive_place_is_nowhere_afterwards(document):
    assert "MARKER-SECRET" not in json.dumps(compile_redactor(["password"]).redact(document))


def scrub(text, secrets):
    scrubber = compile_scrubber(secrets)
    return text if scrubber is None else scrubber.text(text)


SECRET = 'p@ss "wörd"/+='  # noqa: S105 -- not a real one
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
    "ascii": ascii(SECRET)[1:-1],
    "bytes": repr(SECRET.encode())[2:-1],
    "ascii in json": json.dumps(ascii(SECRET))[2:-2],
    "bytes in json": json.dumps(repr(SECRET.encode()))[3:-2],
    "json three times": json.dumps(json.dumps(json.dumps(SECRET)))[7:-7],
    "json with escaped slashes": json.dumps(SECRET)[1:-1].replace("/", r"\/"),
    "json as Go writes it": json.dumps(SECRET)[1:-1].replace("=", r"\u003d").replace("+", r"\u002B"),
    "json of escapes alone": "".join(f"\\u{ord(each):04x}" for each in SECRET),
    "json of escapes alone, twice": "".join(f"\\\\u{ord(each):04X}" for each in SECRET),
    "json with escaped slashes, twice": json.dumps(json.dumps(SECRET).replace("/", r"\/"))[3:-3],
}


@pytest.mark.parametrize("spelling", SPELLINGS.values(), ids=SPELLINGS)
def test_user_ask_19_a_secret_is_masked_in_every_spelling(spelling):
    text = f"tried {spelling}!"
    assert scrub(text, [SECRET]).rstrip("=!") in (f"tried {MARKER}", f"tried {MARKER}A")
    assert spelling not in scrub(text, [SECRET])


def test_a_secret_is_masked_in_a_url_in_lower_case():
    assert scrub("/a?key=ab%2fcd%3d&b=1", ["Ab/Cd="]) == f"/a?key={MARKER}&b=1"


def escaped(draw, secret):
    """Write a text with any legal escape of JSON for each character."""
    written = ""
    for each in secret:
        units = each.encode("utf-16-be")
        codes = "".join(f"\\u{units[at : at + 2].hex()}" for at in range(0, len(units), 2))
        short = {"\n": r"\n", "\t": r"\t", '"': r"\"", "\\": r"\\", "/": r"\/"}.get(each, each)
        clear = short if each in '"\\\n\t' else each
        written += draw(st.sampled_from([clear, short, codes, codes.upper().replace("U", "u")]))
    return written


@given(st.data(), st.text('ab/"é\U0001f511', min_size=4, max_size=12))
def test_a_secret_is_masked_in_every_legal_spelling_of_json(data, secret):
    secret = f"key-{secret}-key"
    written = escaped(data.draw, secret)
    whole = f'{{"a\\/b": "x{written}y", "c": "\\n"}}'
    masked, scrubber = scrub(whole, [secret]), compile_scrubber([secret])
    assert masked in (f'{{"a\\/b": "x{MARKER}y", "c": "\\n"}}', f'{{"a/b": "x{MARKER}y", "c": "\n"}}')
    assert scrubber.value({"text": whole}) == {"text": masked}
    stars = scrubber.data(whole.encode()).decode()
    assert len(stars) == len(whole.encode())
    assert "x**" in stars or stars.strip("*") == ""


@given(st.data(), st.text('ab/\\"\n\té\U0001f511', min_size=4, max_size=12))
def test_a_secret_is_masked_in_every_legal_spelling_of_json_within_json(data, secret):
    secret = f"key-{secret}-key"
    written = f'{{"a": "x{escaped(data.draw, secret)}y"}}'
    masked = scrub(json.dumps(written), [secret])
    assert MARKER in masked
    assert "key-" not in masked
    assert "-key" not in masked


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
    written = write(found.result) + b"".join(payload.data for payload in found.payloads)
    assert MARK.encode() not in written
    assert base64.b64encode(MARK.encode())[:20] not in written
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
    both = compile_scrubber(["first secret"]).merged_with(compile_scrubber(["second secret"]))
    assert both.text("first secret, second secret") == f"{MARKER}, {MARKER}"
    assert both.merged_with(None) is both


def raised(error):
    raise error from ValueError("inner-value")


@pytest.mark.requirement("AT-ERR-15")
def test_a_stack_trace_is_not_passed_on_and_what_was_said_is():
    try:
        raised(RuntimeError("the outer message"))
    except RuntimeError:
        message = clean_message(f"could not run:\n{traceback.format_exc()}")
    assert "the outer message" in message
    assert "could not run" in message
    assert not any(noise in message for noise in ("Traceback", "File ", "line ", "direct cause", ".py"))


def test_a_group_of_exceptions_leaves_no_trace_either():
    group = ExceptionGroup("several", [ValueError("one"), TypeError("two")])
    try:
        raised(group)
    except ExceptionGroup:
        message = clean_message(traceback.format_exc())
    assert "test_redaction.py" not in message


@pytest.mark.parametrize(
    "frame",
    [
        "    at Object.<anonymous> (/srv/app/index.js:3:9)",
        "\tat com.example.Main.run(Main.java:42)",
        "    at /srv/app/index.js:3:9",
        "goroutine 1 [running]:",
        '  File "/srv/tool.py", line 3, in run',
    ],
)
def test_frames_of_other_languages_go_too(frame):
    assert clean_message(f"TypeError: x is not a function\n{frame}\n{frame}") == "TypeError: x is not a function"


def test_terminal_codes_and_control_characters_go_and_layout_stays():
    assert clean_message("\x1b[31mred\x1b[0m\x00 text\r\n\tindented\x07 \x1b]0;title\x07") == "red text\n\tindented"
    assert clean_message("half \ud800 pair") == "half ? pair"


@given(st.text(), st.integers(0, 200))
def test_a_message_is_never_longer_than_its_limit_and_can_be_written(text, limit):
    message = clean_message(text, limit=limit)
    assert len(message) <= limit
    message.encode()


def test_the_beginning_and_the_end_of_a_long_message_stay():
    message = clean_message("begin " + "x" * 5000 + " end")
    assert len(message) <= MAX_MESSAGE_CHARS
    assert message.startswith("begin")
    assert message.endswith("end")
    assert "characters left out" in message
    assert shorten("short", 10) == "short"


FORMS = {
    "A0EEBC99-9C0B-4EF8-BB6D-6BB9BD380A11": ["a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11"],
    471199: ["471199"],
    -4711: ["-4711"],
    "Hunter-22 & Sons": [
        "HUNTER-22 & SONS", "hunter-22 & sons", "Hunter-22%20%26%20Sons", "48756e7465722d3232202620536f6e73",
    ],
    "-----BEGIN KEY-----\nMIIEpAIBAAKC\nAQEA7line\n-----END KEY-----\n": ["MIIEpAIBAAKC", "AQEA7line"],
}  # fmt: skip


@pytest.mark.parametrize(("secret", "form"), [(secret, form) for secret, forms in FORMS.items() for form in forms])
def test_a_secret_is_masked_in_the_usual_forms_of_its_value(secret, form):
    scrubber = compile_scrubber([secret])
    assert scrubber.text(f"it is ({form}).") == f"it is ({MARKER})."
    assert scrubber.data(f"it is ({form}).".encode()) == f"it is ({'*' * len(form)}).".encode()


@pytest.mark.parametrize(
    ("secret", "text"),
    [("12.5", "13 of 125"), (1000.5, "1000 or 1001"), ("2026-01-13", "13 January 2026"), ("1e99", "9" * 99)],
)
def test_other_values_are_not_masked(secret, text):
    assert compile_scrubber([secret]).text(text) is text


def test_names_inside_a_sensitive_object_are_secrets_unless_the_schema_declares_them():
    scrubber = compile_scrubber([{"Qz7-name": 1, "user": "Qz7-value"}], frozenset({"user"}))
    assert scrubber.value({"user": "Qz7-name", "Qz7-name": "Qz7-value"}) == {"user": MARKER, MARKER: MARKER}
    assert compile_scrubber([{"Qz7-name": 1}]) is None


@given(st.lists(st.text(alphabet="ab1-", min_size=4, max_size=30), min_size=1, max_size=40), st.data())
def test_many_forms_are_found_as_few_are(secrets, data):
    scrubber = compile_scrubber(secrets)
    text = data.draw(st.lists(st.sampled_from([*secrets, "a", "b1", "--"]), max_size=30).map("".join))
    plain = scrubber.text(text)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(redaction, "_MIN_SEARCH", 1)
        assert scrubber.text(text) in {plain, MARKER}
        patch.setattr(redaction, "_LONG_TEXT", 0)
        patch.setattr(redaction, "_LONG_FORM", 0)
        assert scrubber.text(text) == plain


def test_a_text_with_parts_of_very_many_forms_is_masked_as_a_whole():
    secrets = ["a" * at + "b" + "a" * (98 - at) for at in range(99)]
    scrubber = compile_scrubber(secrets)
    assert scrubber.text("lorem ipsum " * 2000) == "lorem ipsum " * 2000
    assert scrubber.text("aaaabaaaa" + "a" * 20_000) == MARKER
    assert scrubber.value({"text": "aaaabaaaa" + "a" * 20_000, "n": 1}) == {"text": MARKER, "n": 1}
    assert set(scrubber.data(b"aaaabaaaa" + b"a" * 20_000)) == {ord("*")}
