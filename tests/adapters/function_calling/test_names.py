"""Names for providers: within every limit, no two alike, and back to the tool that is meant."""

import re

from hypothesis import given
from hypothesis import strategies as st

from agenttool.adapters.function_calling.names import claims_of, named
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
    table = named(tools, reserved)
    assert list(table.values()) == tools
    assert all(TAKEN_BY_ALL.fullmatch(name) for name in table)
    assert not reserved & table.keys()


@given(catalogs, st.randoms(use_true_random=False))
def test_the_order_of_the_tools_does_not_matter(tools, random):
    shuffled = list(tools)
    random.shuffle(shuffled)
    assert named(shuffled) == named(tools)


@given(catalogs)
def test_a_name_that_fits_and_that_nobody_else_has_stays_as_it_is(tools):
    table = named(tools)
    bare = [each.name for each in tools]
    for tool in tools:
        if TAKEN_BY_ALL.fullmatch(tool.name) and bare.count(tool.name) == 1:
            assert table[tool.name] is tool


def test_tools_with_one_name_are_told_apart_by_their_namespaces():
    tools = [offered("github", "search"), offered("jira.cloud", "search")]
    assert list(named(tools)) == ["github__search", "jira_cloud__search"]


@given(catalogs, st.data())
def test_loading_a_tool_renames_none(tools, data):
    shown = data.draw(st.lists(st.sampled_from(tools), unique_by=id)) if tools else []
    waiting = [each for each in tools if each not in shown]
    assert named(shown, claims=claims_of([*shown, *waiting])).items() <= named(tools).items()


def test_a_tool_that_waits_claims_a_name_that_another_would_be_spelled_as():
    spelled, waiting = offered("x", "a.b"), offered("y", "a_b")
    (name,) = named([spelled], claims=claims_of([spelled, waiting]))
    assert name != "a_b"
    assert named([spelled, waiting]) == {name: spelled, "a_b": waiting}


def test_a_tool_that_waits_shares_its_name_already_so_that_loading_it_renames_none():
    shown, waiting = offered("github", "search"), offered("jira", "search")
    assert list(named([shown], claims=claims_of([shown, waiting]))) == ["github__search"]
    assert list(named([shown, waiting])) == ["github__search", "jira__search"]


def test_a_name_made_to_look_like_another_tools_does_not_become_it():
    plain, spelled = offered("a", "x_y"), offered("b", "x.y")
    table = named([plain, spelled])
    assert table["x_y"] is plain
    (other,) = table.keys() - {"x_y"}
    greedy = offered("c", other)
    assert named([plain, spelled, greedy])[other] is greedy
    assert len(named([plain, spelled, greedy])) == 3
