"""Function names: unique, accepted by every provider, and stable when tools are loaded."""

import re

from hypothesis import given
from hypothesis import strategies as st

from agenttool.adapters.function_calling.function_names import assign_names, count_names
from agenttool.ports.offer import OfferedTool

TAKEN_BY_ALL = re.compile(r"[A-Za-z_][A-Za-z0-9_-]{0,63}")

words = st.one_of(
    st.sampled_from(
        ["read", "a", "a__b", "b", "a_b", "a.b", "read_1", "tool_search", "x" * 64, "x" * 65, "9", "-", "é"]
    ),
    st.text(min_size=1, max_size=80),
)


def offered(namespace, name):
    return OfferedTool(
        tool_id=f"tool_{namespace}.{name}", namespace=namespace, name=name, description="", input_schema={}
    )


catalogs = st.lists(
    st.builds(offered, words, words), max_size=30, unique_by=lambda each: each.qualified_name
)  # fmt: skip


@given(catalogs, st.sets(st.sampled_from(["tool_search", "read", "a__b"])))
def test_every_tool_has_a_name_of_its_own_that_every_provider_takes(tools, reserved):
    table = assign_names(tools, reserved)
    assert list(table.values()) == tools
    assert all(TAKEN_BY_ALL.fullmatch(name) for name in table)
    assert not reserved & table.keys()


@given(catalogs, st.randoms(use_true_random=False))
def test_the_order_of_the_tools_does_not_matter(tools, random):
    shuffled = list(tools)
    random.shuffle(shuffled)
    assert assign_names(shuffled) == assign_names(tools)


@given(catalogs)
def test_an_accepted_name_that_no_other_tool_has_stays_as_it_is(tools):
    table = assign_names(tools)
    bare, namespaces = [each.name for each in tools], {re.sub("[^A-Za-z0-9_-]", "_", each.namespace) for each in tools}
    for tool in tools:
        is_alone = bare.count(tool.name) == 1 and not any(tool.name.startswith(f"{each}__") for each in namespaces)
        if TAKEN_BY_ALL.fullmatch(tool.name) and is_alone:
            assert table[tool.name] is tool


def test_tools_with_one_name_get_their_namespaces_as_prefixes():
    tools = [offered("github", "search"), offered("jira.cloud", "search")]
    assert list(assign_names(tools)) == ["github__search", "jira_cloud__search"]


def test_a_name_that_begins_with_the_prefix_of_another_namespace_does_not_replace_its_tools():
    own = [offered("files", "read"), offered("mail", "read")]
    imitations = [offered("evil", "files__read"), offered("evil", "files._send")]
    assert list(assign_names([*own, *imitations])) == [
        "files__read",
        "mail__read",
        "evil__files__read",
        "evil__files__send",
    ]


def test_a_built_in_tool_keeps_the_name_by_which_it_is_documented():
    tools = [offered("agenttool", "read_result"), offered("evil", "read_result"), offered("evil", "read.result")]
    names = list(assign_names(tools))
    assert names[:2] == ["read_result", "evil__read_result"]


@given(catalogs, st.data())
def test_loading_a_tool_renames_none(tools, data):
    shown = data.draw(st.lists(st.sampled_from(tools), unique_by=id)) if tools else []
    deferred = [each for each in tools if each not in shown]
    assert assign_names(shown, counts=count_names([*shown, *deferred])).items() <= assign_names(tools).items()


def test_a_deferred_tool_reserves_its_name_before_it_is_loaded():
    rewritten, deferred = offered("x", "a.b"), offered("y", "a_b")
    (name,) = assign_names([rewritten], counts=count_names([rewritten, deferred]))
    assert name != "a_b"
    assert assign_names([rewritten, deferred]) == {name: rewritten, "a_b": deferred}


def test_a_name_shared_with_a_deferred_tool_has_a_prefix_before_it_is_loaded():
    shown, deferred = offered("github", "search"), offered("jira", "search")
    assert list(assign_names([shown], counts=count_names([shown, deferred]))) == ["github__search"]
    assert list(assign_names([shown, deferred])) == ["github__search", "jira__search"]


def test_a_name_that_imitates_an_assigned_name_does_not_replace_it():
    plain, rewritten = offered("a", "x_y"), offered("b", "x.y")
    table = assign_names([plain, rewritten])
    assert table["x_y"] is plain
    (other,) = table.keys() - {"x_y"}
    greedy = offered("c", other)
    assert assign_names([plain, rewritten, greedy])[other] is greedy
    assert len(assign_names([plain, rewritten, greedy])) == 3


@given(catalogs, st.sets(words, max_size=4), st.data())
def test_the_names_of_sources_that_may_be_absent_do_not_depend_on_which_tools_are_there(tools, others, data):
    sources = {each.namespace for each in tools} | others
    absent = data.draw(st.sets(st.sampled_from(sorted(sources)))) if sources else set()
    left = [each for each in tools if each.namespace not in absent]
    every, some = (assign_names(each, counts=count_names(each, sources)) for each in (tools, left))
    assert some == {name: each for name, each in every.items() if each.namespace not in absent}
