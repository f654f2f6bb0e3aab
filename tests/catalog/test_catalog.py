from dataclasses import replace as changed

import pytest

from agenttool.catalog.catalog import Catalog
from agenttool.errors import ConfigError
from agenttool.records import replace
from agenttool.testing.fakes import scripted_tool


def as_tool(tool, tool_id):
    """Return a tool with another id."""
    records = {name: replace(getattr(tool, name), tool_id=tool_id) for name in ("declaration", "interface")}
    return changed(tool, **records)


def test_two_namespaces_may_use_one_name():
    catalog = Catalog()
    catalog.add(*catalog.prepare(scripted_tool("search", namespace="web")))
    catalog.add(*catalog.prepare(scripted_tool("search", namespace="files")))
    assert [entry.qualified_name for entry in catalog.snapshot().entries] == ["web.search", "files.search"]


def test_a_qualified_name_has_one_owner():
    catalog = Catalog()
    first = scripted_tool("search")
    catalog.add(*catalog.prepare(first))
    other = as_tool(first, "tool_other")
    with pytest.raises(ConfigError, match=r"two tools are named 'test\.search'"):
        catalog.add(*catalog.prepare(other))


def test_declaring_again_replaces_and_a_rename_frees_the_old_name():
    catalog = Catalog()
    tool = scripted_tool("search")
    catalog.add(*catalog.prepare(tool))
    catalog.add(*catalog.prepare(changed(tool, declaration=replace(tool.declaration, name="find"))))
    assert [entry.name for entry in catalog.snapshot().entries] == ["find"]
    catalog.add(*catalog.prepare(as_tool(tool, "tool_new")))
    assert catalog.snapshot().size == 2


@pytest.mark.parametrize(
    ("part", "field", "value", "message"),
    [
        ("declaration", "name", None, "/name"),
        ("declaration", "name", "", "an id and a name"),
        ("declaration", "tool_id", "", "an id and a name"),
        ("declaration", "lifecycle", "asleep", "/lifecycle"),
        ("declaration", "lifecycle", None, "/lifecycle"),
        ("declaration", "aliases", 5, "/aliases"),
        ("declaration", "input_contract", 5, "/input_contract"),
        ("declaration", "description", "\ud800", "surrogates"),
        ("interface", "model_input_schema", {"x": object()}, "object"),
        ("interface", "timeout_ms", "soon", "/timeout_ms"),
        ("permission_profile", "risk_level", "huge", "/risk_level"),
        ("execution_profile", "supports_cancel", "maybe", "/supports_cancel"),
    ],
)
def test_invalid_records_are_rejected(part, field, value, message):
    tool = scripted_tool("search")
    odd = changed(tool, **{part: replace(getattr(tool, part), **{field: value})})
    with pytest.raises(ConfigError, match=message):
        Catalog().prepare(odd)


@pytest.mark.parametrize(("member", "value"), [("tool_id", "tool_other"), ("name", "find"), ("namespace", "web")])
def test_an_interface_of_another_tool_is_rejected(member, value):
    tool = scripted_tool("search")
    other = changed(tool, interface=replace(tool.interface, **{member: value}))
    with pytest.raises(ConfigError, match=f"has the {member} '{value}'"):
        Catalog().prepare(other)


def test_the_records_of_a_tool_name_each_other():
    tool = scripted_tool("search", schema={"type": "object", "properties": {"q": {}}})
    declared = Catalog().prepare(tool)[0].tool
    declaration, interface = declared.declaration, declared.interface
    assert declaration.interface_ref == interface.interface_id
    assert declaration.execution_profile_ref == declared.execution_profile.execution_profile_id
    assert declaration.permission_profile_ref == declared.permission_profile.permission_profile_id
    assert declaration.input_contract.model_input_schema == interface.model_input_schema
    assert (interface.name, interface.namespace) == ("search", "test")


@pytest.mark.requirement("AT-IFACE-25")
@pytest.mark.parametrize(
    ("kind", "access", "is_refused"),
    [
        ("shell_command", None, True),
        ("code_execution", None, True),
        ("file_operation", ("file_write",), True),
        ("file_operation", ("file_read",), False),
        ("function", None, False),
    ],
)
def test_tools_that_run_code_or_write_files_must_name_their_classifier_input(kind, access, is_refused):
    for classifier_input in ("", "input.command"):
        plain = scripted_tool("probe", classifier_input=classifier_input)
        tool = changed(
            plain,
            declaration=replace(plain.declaration, tool_kind=kind),
            permission_profile=replace(plain.permission_profile, access_kinds=access),
        )
        if is_refused and not classifier_input:
            with pytest.raises(ConfigError, match="give its interface a classifier_input"):
                Catalog().prepare(tool)
        else:
            assert Catalog().prepare(tool)[0].tool.interface.classifier_input == classifier_input


def test_texts_are_shared_with_the_records_of_the_caller_and_schemas_are_not():
    schema = {"type": "object", "properties": {"path": {"type": "string"}}}
    tool = scripted_tool("search", schema=schema)
    entry = Catalog().prepare(tool)[0]
    schema["properties"].clear()
    assert entry.tool.interface.model_input_schema["properties"] == {"path": {"type": "string"}}
    assert entry.tool.declaration.description is tool.declaration.description
    assert entry.tool.executor is tool.executor


def test_a_value_of_another_type_that_equals_the_right_one_is_converted():
    tool = scripted_tool("search")
    loose = changed(tool, execution_profile=replace(tool.execution_profile, execution_kind="function_call"))
    kind = Catalog().prepare(loose)[0].tool.execution_profile.execution_kind
    assert (type(kind).__name__, kind) == ("ExecutionKind", "function_call")
