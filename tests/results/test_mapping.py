import base64
import json
import threading
from collections import OrderedDict

import pytest
from hypothesis import given
from hypothesis import strategies as st
from strategies import json_values

from agenttool.codec import to_json, write
from agenttool.errors import ConfigError, ToolFailure
from agenttool.ports.output import FailedItem, Media, NativeError, NativeOutput, Partial
from agenttool.records import (
    UNSET,
    A2aMapping,
    AbortReason,
    ContentClass,
    ContentItem,
    ErrorClass,
    OutputContract,
    Phase,
    RedactionState,
    Ref,
    Rendering,
    ResultStatus,
    ToolInterface,
    ToolResult,
    replace,
    text_item,
)
from agenttool.results import mapping
from agenttool.results.failure import result_of_failure, stopped_by
from agenttool.results.mapping import EMPTY_TEXT, measured
from agenttool.results.mapping_plan import PLAIN, MappingPlan, plan_mapping
from agenttool.schema.compile import Checker

PNG = b"\x89PNG\r\n\x1a\n" + bytes(range(256)) * 8


def result_of(**members):
    return ToolResult(
        **{
            "result_id": "res_1",
            "invocation_id": "inv_1",
            "status": ResultStatus.SUCCEEDED,
            "is_error": False,
            "redaction_state": RedactionState.NONE,
            "created_at": "2026-05-08T00:00:00Z",
            **members,
        }
    )


def test_text_becomes_one_text_item_that_the_model_reads(mapped):
    items = (text_item("hello"),)
    assert mapped("hello").result == result_of(content=items, model_facing_content=items)


@pytest.mark.parametrize(
    ("value", "spelled"),
    [({"a": [1, None]}, '{"a":[1,null]}'), ([], "[]"), ({}, "{}"), (5, "5"), (True, "true"), (1.5, "1.5")],
)
def test_a_json_value_is_structured_content_and_compact_json_for_the_model(mapped, value, spelled):
    items = (text_item(spelled),)
    expected = result_of(content=items, model_facing_content=items, structured_content=value)
    assert mapped(value).result == expected
    assert mapped(value).chars == len(spelled)


def test_the_tool_cannot_change_its_result_afterwards(mapped):
    value = {"items": [1]}
    result = mapped(value).result
    value["items"].append(2)
    assert result.structured_content == {"items": [1]}


@pytest.mark.requirement("AT-PERS-14")
@pytest.mark.parametrize("nothing", [None, "", b"", NativeOutput(), NativeOutput(content=())])
def test_an_empty_result_is_marked_and_is_not_missing(mapped, nothing):
    empty = mapped(nothing).result
    assert empty == result_of(content=(), model_facing_content=(text_item(EMPTY_TEXT),), empty_result=True)
    lost = result_of_failure(
        stopped_by(AbortReason.RUNTIME_SHUTDOWN, Phase.EXECUTE),
        result_id="res_1",
        invocation_id="inv_1",
        created_at="now",
    )
    assert lost.empty_result is None
    assert lost.is_error


def test_a_tool_that_is_never_empty_fails_when_it_is(mapped):
    with pytest.raises(ToolFailure) as caught:
        mapped(None, MappingPlan(fails_if_empty=True))
    assert (caught.value.error.error_class, caught.value.error.error_code) == (
        ErrorClass.RESULT_MAPPING_FAILED,
        "empty_result",
    )


@pytest.mark.requirement("AT-RES-03")
def test_every_content_class_comes_through_unchanged(mapped):
    ref = Ref(id="r", uri="https://example.org/r", media_type="image/png")
    items = tuple(
        ContentItem(type=each, text="words")
        if each in (ContentClass.TEXT, ContentClass.LOG, ContentClass.DIFF)
        else ContentItem(type=each, data={"a": 1})
        if each is ContentClass.STRUCTURED_CONTENT
        else ContentItem(type=each, ref=ref, name="thing")
        for each in ContentClass
    )
    result = mapped(NativeOutput(content=items), MappingPlan(has_artifacts=True)).result
    assert result.content == items
    assert [item.type for item in result.content] == list(ContentClass)


def test_representations_stay_apart(mapped):
    output = NativeOutput(
        value={"rows": 3},
        summary="SUMMARY",
        ui_facing_summary="UI-LABEL",
        ui_facing_rendering={"card": "UI-CARD"},
        transcript_search_text="SEARCH-WORDS",
    )
    result = mapped(output).result
    shown = json.dumps(to_json(result)["model_facing_content"]) + json.dumps(result.structured_content)
    assert not any(hint in shown for hint in ("SUMMARY", "UI-LABEL", "UI-CARD", "SEARCH-WORDS"))
    assert (result.ui_facing_summary, result.transcript_search_text) == ("UI-LABEL", "SEARCH-WORDS")


@pytest.mark.requirement("AT-PERS-04")
def test_dropping_the_rendering_changes_nothing_else(mapped):
    with_rendering = to_json(mapped(NativeOutput(value={"a": 1}, ui_facing_rendering={"card": 1})).result)
    assert with_rendering.pop("ui_facing_rendering") == {"card": 1}
    assert with_rendering == to_json(mapped(NativeOutput(value={"a": 1})).result)


@pytest.mark.requirement("AT-REF-01", "AT-REF-02")
def test_resources_and_artifacts_are_listed_apart(mapped):
    page = Ref(id="page", uri="https://example.org/", media_type="text/html")
    report = Ref(id="report", uri="artifact:1", media_type="application/pdf")
    output = NativeOutput(value="done", resource_refs=(page,), artifact_refs=(report,))
    result = mapped(output, MappingPlan(has_artifacts=True)).result
    assert (result.resource_refs, result.artifact_refs) == ((page,), (report,))


def test_native_ids_are_carried_on_the_result(mapped):
    mapping = A2aMapping(task_id="t1")
    assert mapped(NativeOutput(value="done", external_mappings=(mapping,))).result.external_mappings == (mapping,)


@pytest.mark.requirement("AT-RES-08")
def test_failed_items_are_listed_apart_from_the_rest(mapped):
    parts = Partial(succeeded=("a", "c"), failed=(FailedItem(item="b", message="disk full"),))
    result = mapped(NativeOutput(value="copied", partial=parts)).result
    facts = {"succeeded": ["a", "c"], "failed": [{"item": "b", "message": "disk full"}]}
    assert (result.status, result.is_error) == (ResultStatus.PARTIAL_SUCCEEDED, False)
    assert result.error.error_class is ErrorClass.PARTIAL_FAILURE
    assert result.structured_content == facts
    assert json.dumps(facts, separators=(",", ":")) in [item.text for item in result.model_facing_content]


@pytest.mark.parametrize(
    ("parts", "status"),
    [
        (Partial(succeeded=("a",)), ResultStatus.SUCCEEDED),
        (Partial(failed=(FailedItem(item="a", message="no"),)), ResultStatus.FAILED),
    ],
)
def test_all_or_nothing_is_not_partial(mapped, parts, status):
    assert mapped(NativeOutput(partial=parts)).result.status is status


@pytest.mark.requirement("AT-ERR-16")
def test_a_native_error_keeps_its_words_and_its_own_code(mapped):
    shown = NativeError(
        message="slow down",
        error_class=ErrorClass.RATE_LIMITED,
        error_code="429",
        retry_after=7,
        native_error_ref={"status": 429, "body": "native:1"},
    )
    result = mapped(NativeOutput(value="Too many requests", is_error=True, error=shown)).result
    assert (result.status, result.is_error) == (ResultStatus.FAILED, True)
    assert result.content == (text_item("Too many requests"),)
    assert (result.error.error_class, result.error.error_code, result.error.retry_after) == ("rate_limited", "429", 7)
    assert result.error.native_error_ref == {"status": 429, "body": "native:1"}


def test_an_error_without_a_message_still_has_advice_for_the_model(mapped):
    result = mapped(NativeOutput(is_error=True)).result
    assert result.status is ResultStatus.FAILED
    assert "execution_failed" in result.model_facing_content[0].text


@pytest.mark.requirement("AT-PERS-03")
def test_structured_content_fits_its_schema_or_the_mapping_fails(mapped):
    plan = MappingPlan(check=Checker({"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}))
    assert mapped({"n": 1}, plan).result.structured_content == {"n": 1}
    with pytest.raises(ToolFailure) as caught:
        mapped({"n": "SECRET-VALUE"}, plan)
    error = caught.value.error
    assert (error.error_class, error.error_code, error.retry.safe) == (
        ErrorClass.RESULT_MAPPING_FAILED,
        "schema_misfit",
        False,
    )
    assert "/n must be integer" in error.message
    assert "SECRET-VALUE" not in error.message


@pytest.mark.parametrize("output", [None, NativeOutput(content=(text_item("words"),)), Media(PNG)])
def test_an_output_without_the_structured_content_it_promised_fails(mapped, output):
    with pytest.raises(ToolFailure):
        mapped(output, MappingPlan(check=Checker({"type": "object"})))


def test_a_text_tool_with_a_schema_has_its_text_as_structured_content(mapped):
    plan = MappingPlan(check=Checker({"type": "string"}))
    assert mapped("hello", plan).result.structured_content == "hello"


def test_an_error_is_not_held_to_the_schema_of_a_success(mapped):
    plan = MappingPlan(check=Checker({"type": "object"}))
    assert mapped(NativeOutput(value="no such row", is_error=True), plan).result.status is ResultStatus.FAILED


@pytest.mark.requirement("AT-IO-16")
def test_content_of_an_undeclared_class_fails(mapped):
    plan = MappingPlan(content_types=frozenset({ContentClass.TEXT}))
    assert mapped("words", plan).result.content == (text_item("words"),)
    with pytest.raises(ToolFailure) as caught:
        mapped(Media(PNG), plan)
    assert caught.value.error.error_code == "content_type_not_declared"


def test_the_tools_own_mapper_goes_first_and_may_fail(mapped):
    plan = MappingPlan(mapper=lambda native: NativeOutput(value=native["body"], summary="mapped"))
    assert mapped({"body": "text"}, plan).result.summary == "mapped"
    with pytest.raises(ToolFailure):
        mapped({"no": "body"}, plan)


@pytest.mark.parametrize(
    "output",
    [
        NativeOutput(content=5),
        NativeOutput(resource_refs=("just text",)),
        NativeOutput(value="x", summary=5),
        NativeOutput(partial="some"),
        NativeOutput(content=(ContentItem(type=ContentClass.TEXT, text=5),)),
        ContentItem(type=ContentClass.LOG, text=b"bytes"),
        NativeOutput(value="x", ui_facing_rendering=threading.Lock()),
    ],
)
def test_an_output_that_breaks_its_own_shape_is_a_failure_to_map(mapped, output):
    with pytest.raises(ToolFailure) as caught:
        mapped(output)
    assert caught.value.error.error_class is ErrorClass.RESULT_MAPPING_FAILED


class Hostile:
    """Every access to it fails."""

    def __getattr__(self, name):
        raise ZeroDivisionError

    def __eq__(self, other):
        raise ZeroDivisionError

    def __iter__(self):
        raise ZeroDivisionError

    __hash__ = object.__hash__


class HostileText(str):
    __slots__ = ()

    def __str__(self):
        raise ZeroDivisionError


class HostileDict(dict):
    def items(self):
        raise ZeroDivisionError


ODD = {
    "hostile": Hostile,
    "hostile text": lambda: HostileText("text"),
    "hostile dict": lambda: HostileDict(a=1),
    "lock": threading.Lock,
    "object": object,
    "dots": lambda: ...,
    "nan": lambda: float("nan"),
    "infinity": lambda: float("inf"),
    "half a pair": lambda: "\ud800",
    "long integer": lambda: 2**200,
    "endless integer": lambda: 10**5000,
    "complex": lambda: 1j,
    "bytes": lambda: b"\x00\xff",
    "range": lambda: range(3),
    "generator": lambda: (each for each in "abc"),
    "exception": lambda: ValueError("no"),
    "badly named media": lambda: Media(b"\x00", None, "n\ud800"),
    "media of text": lambda: Media("not bytes"),
    "output": lambda: NativeOutput(value=1),
    "item": lambda: text_item("x"),
    "ordered": lambda: OrderedDict(a=1),
    "type": lambda: int,
    "function": lambda: len,
}
odd = st.sampled_from(sorted(ODD)).map(lambda name: ODD[name]())
python_values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text()
    | st.binary()
    | st.decimals()
    | st.dates()
    | odd,
    lambda inner: (
        st.lists(inner)
        | st.tuples(inner, inner)
        | st.dictionaries(st.text() | st.integers() | st.none() | st.booleans() | st.binary(), inner)
        | st.frozensets(st.text() | st.integers())
    ),
    max_leaves=12,
)


@given(python_values)
def test_whatever_a_tool_returns_there_is_a_valid_result_or_a_failure_to_map(mapped, misfits, value):
    try:
        found = mapped(value)
    except ToolFailure as failure:
        found = failure
    if isinstance(found, ToolFailure):
        assert (found.error.error_class, found.error.retry.safe) == (ErrorClass.RESULT_MAPPING_FAILED, False)
    else:
        assert misfits(found.result) == []
        assert found.result.is_error == found.result.status.is_error


@given(value=json_values(max_leaves=20))
def test_a_json_value_comes_through_as_it_is_and_fits_the_published_schema(mapped, published_misfits, value):
    result = mapped(value).result
    if value not in (None, "") and not isinstance(value, str):
        assert result.structured_content == value
        assert json.loads(result.model_facing_content[0].text) == value
    assert published_misfits(result) == []


@given(python_values)
def test_mapping_the_same_output_again_gives_the_same_bytes(mapped, value):
    try:
        first = write(mapped(value).result)
    except ToolFailure:
        return
    assert write(mapped(value).result) == first


@given(st.binary(min_size=48, max_size=3000))
def test_user_ask_5_bytes_never_become_base64_text(mapped, data):
    coded = base64.b64encode(data).decode()
    for output in (data, {"file": data}, [data], Media(data, "image/png"), NativeOutput(content=(Media(data),))):
        written = write(mapped(output).result).decode()
        assert coded[:40] not in written


def test_a_result_that_a_hook_changed_is_measured_again():
    result = result_of(model_facing_content=(text_item("äbc"), ContentItem(type="log", data=[1, 2])))
    assert measured(result).chars == 3 + len("[1,2]")
    assert measured(result_of(structured_content={"a": "x" * 50}, model_facing_content=())).chars == 58
    assert measured(result_of()).result.structured_content is UNSET


def interface(**members):
    return ToolInterface(interface_id="i", tool_id="t", **members)


def test_a_tool_that_declares_nothing_has_the_plain_plan():
    assert plan_mapping(interface()) == PLAIN
    assert PLAIN.is_plain


def test_the_plan_is_read_from_the_records():
    plan = plan_mapping(
        interface(
            output_schema={"type": "object"},
            empty_result_policy="fail",
            is_read_only=True,
            rendering=Rendering(ui_summary="label", transcript_search_text="words"),
        ),
        OutputContract(
            structured_schema={"type": "object"},
            content_types=("text",),
            redaction_rules=("token", {"path": "/user/pin"}),
            fallback_summary="not shown",
        ),
    )
    assert plan.check.accepts({})
    assert not plan.check.accepts([])
    assert plan.redactor.redact({"token": 1, "user": {"pin": 2}}) == {
        "token": "[redacted]",
        "user": {"pin": "[redacted]"},
    }
    assert (plan.content_types, plan.fails_if_empty, plan.effects) == ({"text"}, True, False)
    assert (plan.ui_facing_summary, plan.transcript_search_text) == ("label", "words")
    assert plan.fallback_summary == "not shown"
    assert not plan.is_plain


@pytest.mark.parametrize(
    ("schema", "other"),
    [({"type": "object"}, {"type": "array"}), ({"type": "nonsense"}, None), ({"$ref": "http://x/"}, None)],
)
def test_schemas_that_contradict_or_cannot_be_used_stop_the_deployment(schema, other):
    with pytest.raises(ConfigError):
        plan_mapping(interface(output_schema=schema), OutputContract(structured_schema=other))


def test_a_redaction_rule_that_names_no_place_hides_everything():
    plan = plan_mapping(interface(), OutputContract(redaction_rules=({"kind": "unknown"},)))
    assert plan.redactor.is_whole


def test_a_schema_alone_leaves_direct_mapping_possible():
    assert plan_mapping(interface(output_schema={"type": "object"})).is_plain


LONG = "a\u200d" * 200_000


def test_a_long_text_is_checked_without_being_read_back_and_the_rest_of_its_item_is_checked(mapped, monkeypatch):
    written = []
    monkeypatch.setattr(mapping, "write", lambda record: written.append(write(record)) or written[-1])
    result = mapped(NativeOutput(content=(text_item(LONG), text_item("short")))).result
    assert [item.text for item in result.content] == [LONG, "short"]
    assert result.text == LONG.replace("\u200d", "\\u200d") + "\nshort"
    assert max(map(len, written)) < 1000
    for wrong in ({"name": 5}, {"text": LONG + "\ud800"}):
        with pytest.raises(ToolFailure):
            mapped(NativeOutput(content=(replace(text_item(LONG), **wrong),)))
