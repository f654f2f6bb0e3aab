"""Records are checked against their schemas, and so are the schemas and examples of declarations."""

import json

import pytest
from requirement_marks import find_requirement

from agenttool.conformance.validate.schema_checks import CLOSED_LISTS, OUR_MEMBERS, SHAPE_ROWS
from agenttool.records import RECORD_TYPES
from agenttool.schema.record_schemas import schema_of
from write_schemas import SCHEMA_FILES


def declared(record, **contract):
    return record("tool_declaration", input_contract=contract)


@pytest.mark.parametrize(
    "schema",
    [
        {"type": "nonsense"},
        {"properties": 7},
        {"$ref": "https://example.com/schema.json"},
        {"$ref": "#/$defs/missing"},
        {"pattern": "("},
    ],
)
def test_a_schema_that_cannot_be_used_is_an_error_wherever_it_is_declared(check, record, schema):
    assert check(declared(record, model_input_schema=schema)) == [
        ("error", "/input_contract/model_input_schema", "AT-IO-01")
    ]
    assert check(declared(record, runtime_input_schema=schema)) == [
        ("error", "/input_contract/runtime_input_schema", "AT-IO-01")
    ]
    assert check(record("tool_declaration", output_contract={"structured_schema": schema})) == [
        ("error", "/output_contract/structured_schema", "AT-IO-01")
    ]
    assert check(record("tool_interface", output_schema=schema)) == [("error", "/output_schema", "AT-IO-01")]


@pytest.mark.parametrize(
    "schema", [{}, {"$ref": "#"}, {"allOf": [{"$ref": "#"}]}, {"$defs": {"a": {}}, "$ref": "#/$defs/a"}]
)
def test_a_schema_that_is_complete_in_itself_is_well(check, record, schema):
    assert check(declared(record, model_input_schema=schema, examples=[{}])) == []


def test_an_example_that_is_none_is_an_error_with_its_place(validated, record):
    schema = {"type": "object", "properties": {"n": {"enum": ["s3cret", "other"]}}, "required": ["path"]}
    findings = validated([declared(record, model_input_schema=schema, examples=[{"path": 1}, {"path": 1, "n": 2}, {}])])
    assert [(each.pointer, each.requirement) for each in findings] == [
        ("/input_contract/examples/1/n", "AT-IO-05"),
        ("/input_contract/examples/2/path", "AT-IO-05"),
    ]
    assert "s3cret" not in repr(findings)


def test_a_schema_whose_references_multiply_is_not_used(check, record):
    definitions = {f"d{n}": {"allOf": [{"$ref": f"#/$defs/d{n + 1}"}] * 2} for n in range(60)}
    schema = {"$defs": {**definitions, "d60": {"type": "object"}}, "$ref": "#/$defs/d0"}
    assert check(declared(record, model_input_schema=schema, examples=[1])) == [
        ("warning", "/input_contract/model_input_schema", "AT-IO-01")
    ]


@pytest.mark.parametrize(
    ("schema", "pointer"),
    [
        ({"properties": {"key": {}}}, "/properties/key"),
        ({"properties": {"a": {"items": {"properties": {"key": {}}}}}}, "/properties/a/items/properties/key"),
        ({"$defs": {"x": {"properties": {"key": {}}}}}, "/$defs/x/properties/key"),
        ({"anyOf": [{}, {"required": ["a", "key"]}]}, "/anyOf/1/required/1"),
    ],
)
def test_an_internal_field_is_in_no_schema_that_a_model_sees(check, record, schema, pointer):
    found = check(declared(record, model_input_schema=schema, internal_only_fields=["key"]))
    assert found == [("error", f"/input_contract/model_input_schema{pointer}", "AT-IO-10")]


def test_an_internal_field_may_be_named_by_its_way(check, record):
    schema = {"properties": {"auth": {"properties": {"key": {}}}, "key": {}}}
    found = check(declared(record, model_input_schema=schema, internal_only_fields=["auth.key"]))
    assert found == [("error", "/input_contract/model_input_schema/properties/auth/properties/key", "AT-IO-10")]


def test_a_word_of_a_schema_that_is_no_field_is_no_field(check, record):
    schema = {"properties": {"a": {"description": "key", "enum": ["key"], "default": {"key": 1}}}}
    assert check(declared(record, model_input_schema=schema, internal_only_fields=["key"])) == []


@pytest.mark.parametrize(
    "contract", [7, [], {"model_input_schema": 7}, {"examples": {}}, {"internal_only_fields": "key"}]
)
def test_a_contract_of_any_shape_is_looked_at(check, record, contract):
    assert all(row != "AT-IO-10" for _, _, row in check(record("tool_declaration", input_contract=contract)))


PUBLISHED = list(SCHEMA_FILES)[:15]


def test_every_kind_of_record_has_its_row():
    assert set(SHAPE_ROWS) == set(RECORD_TYPES)


@pytest.mark.parametrize("row", sorted({*SHAPE_ROWS.values(), *CLOSED_LISTS.values()}))
def test_every_row_is_in_the_ledger(row):
    assert find_requirement(row)


@pytest.mark.parametrize("kind", PUBLISHED)
def test_our_members_are_those_that_the_published_schema_does_not_know(standard, kind):
    published = json.loads((standard / "schemas" / SCHEMA_FILES[kind]).read_text())["properties"]
    ours = {member for record_type, member in OUR_MEMBERS if record_type == kind}
    assert ours == schema_of(kind)["properties"].keys() - published.keys() - {"record_type"}


@pytest.mark.parametrize("kind", PUBLISHED)
def test_every_closed_list_of_a_published_schema_has_its_row(standard, kind):
    published = json.loads((standard / "schemas" / SCHEMA_FILES[kind]).read_text())["properties"]
    closed = {f"{kind}.{name}" for name, schema in published.items() if "enum" in schema}
    assert closed <= CLOSED_LISTS.keys()


@pytest.mark.parametrize("kind", RECORD_TYPES)
def test_a_record_that_is_well_is_well(check, record, kind):
    assert check(record(kind)) == []
    assert check(record(kind, record_type=kind)) == []


@pytest.mark.requirement("AT-VER-02")
@pytest.mark.parametrize("kind", RECORD_TYPES)
def test_an_unknown_member_is_welcome_in_every_kind_of_record(check, record, kind):
    assert check(record(kind, x_vendor={"anything": [1, None, {"goes": True}]})) == []


@pytest.mark.parametrize("kind", RECORD_TYPES)
def test_a_required_member_that_is_missing_is_an_error_by_the_row_of_its_kind(check, record, kind):
    for name in schema_of(kind)["required"]:
        row = CLOSED_LISTS.get(f"{kind}.{name}", SHAPE_ROWS[kind])
        assert ("error", f"/{name}", row) in check(record(kind, without=(name,), record_type=kind))


@pytest.mark.parametrize("place", CLOSED_LISTS)
def test_a_word_that_is_not_in_a_closed_list_breaks_the_row_of_the_list(check, record, place):
    kind, name = place.split(".")
    severity = "warning" if (kind, name) in OURS else "error"
    assert (severity, f"/{name}", CLOSED_LISTS[place]) in check(record(kind, **{name: "whatever"}))


OURS = {("tool_interface", "interrupt_behavior"), ("tool_interface", "context_modifier_policy")}


@pytest.mark.requirement("AT-VER-06")
@pytest.mark.parametrize("kind", PUBLISHED)
def test_what_a_published_schema_refuses_is_an_error_and_what_it_accepts_is_none_of_shape(
    validated, record, published_schemas, kind
):
    published = published_schemas[kind]
    names = [name for name in schema_of(kind)["properties"] if name != "record_type"]
    changes = [record(kind, **{name: wrong}) for name in names for wrong in (7, "x", [7], {}, None)]
    found = validated([{**changed, "record_type": kind} for changed in changes])
    wrong = {each.line for each in found if (each.layer, each.severity) == ("shape", "error")}
    assert wrong == {line for line, changed in enumerate(changes, 1) if not published.accepts(changed)}


def test_what_only_our_schemas_ask_for_is_a_warning(check, record):
    assert check(record("tool_invocation", scheduler=7)) == [("warning", "/scheduler", "AT-INV-01")]
    assert check(record("tool_result", content=[{"text": "no class"}])) == [("warning", "/content/0/type", "AT-RES-01")]


def test_null_is_not_the_same_as_absent(check, record):
    assert check(record("tool_invocation", surface_id=None)) == [("error", "/surface_id", "AT-INV-01")]
