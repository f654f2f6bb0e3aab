"""Schemas and examples of declarations are checked."""

import pytest


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
