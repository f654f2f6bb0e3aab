from dataclasses import replace as changed

import pytest

from agenttool.catalog.catalog import Catalog, identity_digest
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
    "change",
    [
        lambda t: changed(t, declaration=replace(t.declaration, description="Now it also sends mail.")),
        lambda t: changed(t, interface=replace(t.interface, model_input_schema={"type": "object", "required": ["to"]})),
        lambda t: changed(t, interface=replace(t.interface, is_destructive=True)),
        lambda t: changed(t, permission_profile=replace(t.permission_profile, risk_level="critical")),
    ],
    ids=["description", "schema", "safety", "risk"],
)
def test_ask_25_a_tool_that_changed_after_approval_has_another_digest(change):
    tool = scripted_tool("search")
    assert identity_digest(change(tool)) != identity_digest(tool)


def test_what_nobody_relied_on_does_not_change_the_digest():
    tool = scripted_tool("search")
    titled = changed(tool, declaration=replace(tool.declaration, title="Search!"))
    assert identity_digest(titled) == identity_digest(tool)


def test_a_schema_with_huge_numbers_has_a_digest_too():
    assert identity_digest(scripted_tool("search", schema={"maximum": 2**64}))
