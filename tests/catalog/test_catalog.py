from dataclasses import replace as changed

import pytest

from agenttool.catalog.catalog import Catalog
from agenttool.errors import ConfigError
from agenttool.records import replace
from agenttool.testing.fakes import scripted_tool


def test_two_namespaces_may_use_one_name():
    catalog = Catalog()
    catalog.declare(scripted_tool("search", namespace="web"))
    catalog.declare(scripted_tool("search", namespace="files"))
    assert [entry.qualified_name for entry in catalog] == ["web.search", "files.search"]


def test_a_qualified_name_has_one_owner():
    catalog = Catalog()
    first = scripted_tool("search")
    catalog.declare(first)
    other = changed(first, declaration=replace(first.declaration, tool_id="tool_other"))
    with pytest.raises(ConfigError, match=r"two tools are named 'test\.search'"):
        catalog.declare(other)


def test_declaring_again_replaces_and_a_rename_frees_the_old_name():
    catalog = Catalog()
    tool = scripted_tool("search")
    catalog.declare(tool)
    catalog.declare(changed(tool, declaration=replace(tool.declaration, name="find")))
    assert [entry.name for entry in catalog] == ["find"]
    catalog.declare(changed(tool, declaration=replace(tool.declaration, tool_id="tool_new")))
    assert len(catalog) == 2


@pytest.mark.parametrize(
    ("part", "field", "value", "told"),
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
def test_records_that_are_not_what_they_should_be_are_refused(part, field, value, told):
    tool = scripted_tool("search")
    odd = changed(tool, **{part: replace(getattr(tool, part), **{field: value})})
    with pytest.raises(ConfigError, match=told):
        Catalog().declare(odd)
