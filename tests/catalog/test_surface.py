from dataclasses import replace as changed

import pytest

from agenttool.catalog.entry import Entry
from agenttool.catalog.unresolved import Unresolved
from agenttool.records import Lifecycle, replace
from agenttool.testing.fakes import scripted_tool


def declared(name, **fields):
    namespace = fields.pop("namespace", "test")
    tool = scripted_tool(name, namespace=namespace)
    return changed(tool, declaration=replace(tool.declaration, **fields))


def code(found):
    assert isinstance(found, Unresolved)
    return found.error_class.value, found.code


@pytest.mark.requirement("AT-DECL-06")
def test_a_tool_is_found_by_name_qualified_name_id_and_alias(surface):
    made = surface(declared("search", aliases=("find", "lookup")))
    found = {made.resolve(name) for name in ("search", "test.search", "tool_test.search", "find", "lookup")}
    assert len(found) == 1
    assert isinstance(found.pop(), Entry)


def test_ask_1_a_name_that_two_servers_share_leads_to_neither_and_lists_both(surface):
    made = surface(scripted_tool("search", namespace="web"), scripted_tool("search", namespace="files"))
    unresolved = made.resolve("search")
    assert code(unresolved) == ("unknown_tool", "ambiguous_name")
    assert "'files.search'" in unresolved.message
    assert "'web.search'" in unresolved.message
    assert made.resolve("web.search").qualified_name == "web.search"


def test_an_alias_never_hides_a_primary_name(surface):
    made = surface(declared("search"), declared("grep", aliases=("search",)))
    assert made.resolve("search").name == "search"


@pytest.mark.parametrize("said", [{"aliases": ("search", "web.search")}, {"tool_id": "web.search"}])
@pytest.mark.parametrize("facts", [{"should_defer": True}, {"requires_setup": True}])
def test_no_other_tool_replaces_one_that_cannot_be_called_yet(surface, said, facts):
    rogue = declared("rogue", namespace="x", **said)
    rogue = changed(rogue, interface=replace(rogue.interface, tool_id=rogue.declaration.tool_id))
    made = surface(scripted_tool("search", namespace="web", **facts), rogue)
    unresolved = made.resolve("web.search")
    assert code(unresolved)[0] == ("schema_not_loaded" if "should_defer" in facts else "blocked_tool")
    assert "rogue" not in unresolved.message
    if "should_defer" in facts and "aliases" in said:
        assert made.resolve("search").message == unresolved.message
    assert made.resolve("x.rogue").name == "rogue"


def test_an_alias_is_used_where_the_tool_with_the_name_is_absent(surface):
    made = surface(scripted_tool("search", requires_setup=True), declared("grep", aliases=("search",)))
    assert made.resolve("search").name == "grep"


@pytest.mark.parametrize("defers", [False, True])
def test_the_qualified_name_of_a_withdrawn_tool_can_be_the_alias_of_its_successor(surface, defers):
    successor = declared("grep", aliases=("test.search",))
    successor = changed(successor, interface=replace(successor.interface, should_defer=defers))
    made = surface(declared("search", lifecycle=Lifecycle.RETIRED), successor)
    found = made.resolve("test.search")
    assert "'select:test.grep'" in found.message if defers else found.name == "grep"


def test_two_tools_with_one_alias_are_ambiguous(surface):
    made = surface(declared("a", aliases=("go",)), declared("b", aliases=("go",)))
    assert code(made.resolve("go")) == ("unknown_tool", "ambiguous_name")


@pytest.mark.parametrize(
    ("lifecycle", "outcome"),
    [
        (Lifecycle.DRAFT, ("blocked_tool", "feature_disabled")),
        (Lifecycle.DISABLED, ("blocked_tool", "feature_disabled")),
        (Lifecycle.REQUIRES_SETUP, ("blocked_tool", "setup_required")),
        (Lifecycle.RETIRED, ("blocked_tool", "feature_disabled")),
        (Lifecycle.DEFERRED, ("schema_not_loaded", "schema_not_loaded")),
    ],
)
def test_a_lifecycle_that_forbids_calls_says_so(surface, lifecycle, outcome):
    assert code(surface(declared("search", lifecycle=lifecycle)).resolve("search")) == outcome


def test_a_deprecated_tool_answers_but_is_not_offered(surface):
    made = surface(declared("old", lifecycle=Lifecycle.DEPRECATED), declared("new"))
    assert made.resolve("old").name == "old"
    assert made.record.loaded_tools == ("tool_test.new",)
    assert made.record.tool_refs == ("tool_test.new",)


def test_a_deferred_tool_can_be_loaded_and_is_then_callable(surface):
    tool = scripted_tool("search", should_defer=True)
    assert code(surface(tool).resolve("search")) == ("schema_not_loaded", "schema_not_loaded")
    loaded = surface(tool, loaded=frozenset({"tool_test.search"}))
    assert loaded.resolve("search").name == "search"
    assert loaded.record.deferred_tools == ()


def test_always_load_beats_should_defer(surface):
    assert surface(scripted_tool("search", should_defer=True, always_load=True)).resolve("search").name == "search"


def test_ask_18_every_tool_that_is_not_there_says_why_and_what_would_change_it(surface):
    made = surface(declared("a", lifecycle=Lifecycle.REQUIRES_SETUP), scripted_tool("b"), allows_writes=False)
    found = {
        tool.name: (tool.reason.value, tool.may_change, bool(tool.would_change)) for tool in made.record.blocked_tools
    }
    assert found == {"test.a": ("setup_required", True, True), "test.b": ("policy_blocked", True, True)}


def test_a_tool_that_says_it_only_reads_stays_in_read_only_mode(surface):
    made = surface(scripted_tool("read", is_read_only=True), scripted_tool("write"), allows_writes=False)
    assert made.record.loaded_tools == ("tool_test.read",)


def test_an_unknown_name_is_distinguished_from_a_blocked_one(surface):
    assert code(surface(scripted_tool("a")).resolve("b")) == ("unknown_tool", "unknown_tool")


def test_a_blocked_tool_does_not_make_the_name_of_another_ambiguous(surface):
    made = surface(scripted_tool("search", namespace="web"), declared("search", lifecycle=Lifecycle.DISABLED))
    assert made.resolve("search").qualified_name == "web.search"


@pytest.mark.requirement("AT-SURF-10")
@pytest.mark.parametrize(
    ("only", "reasons"),
    [
        (None, {"test.two": "did not pass it on", "test.three": "did not pass it on"}),
        (frozenset({"one", "two"}), {"test.two": "did not pass it on", "test.three": "requested"}),
    ],
)
def test_tools_that_were_not_passed_on_to_a_sub_agent_have_that_reason(surface, only, reasons):
    tools = [scripted_tool(name) for name in ("one", "two", "three")]
    made = surface(*tools, is_child=True, bounds=frozenset({"tool_test.one"}), only=only)
    assert made.record.loaded_tools == ("tool_test.one",)
    assert {each.name: reasons[each.name] in each.message for each in made.record.excluded_tools} == dict.fromkeys(
        reasons, True
    )
    assert "let the agent above load it" in made.resolve("two").remedy
