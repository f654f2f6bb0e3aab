"""A roster stays what it was while the catalog goes on, and a new one costs what has changed."""

from contextlib import suppress
from dataclasses import replace as changed
from fnmatch import fnmatchcase
from operator import attrgetter

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from agenttool.catalog.catalog import Catalog
from agenttool.catalog.fates import Wish, decide_fates
from agenttool.catalog.filters import Situation
from agenttool.catalog.request import SurfaceRequest
from agenttool.catalog.surface import Surface
from agenttool.catalog.surface_record import Making, record_of
from agenttool.catalog.unresolved import Unresolved
from agenttool.errors import ConfigError
from agenttool.ports.surfacing import Circumstances, ProviderState, Role, SurfacePolicy
from agenttool.records import replace
from agenttool.testing.fakes import scripted_tool

ABSENT = ("blocked_tools", "excluded_tools")
WORDS = ("a", "b", "c", "d")
SITUATIONS = (
    Situation(),
    Situation(allows_writes=False),
    Situation(role=Role(name="r", tools=("x.*", "*.a"), without=("*.b",))),
    Situation(only=frozenset({"a", "y.b"})),
    Situation(circumstances=Circumstances(providers={"x": ProviderState.CONNECTING})),
)

declared = st.fixed_dictionaries(
    {
        "number": st.integers(0, 7),
        "name": st.sampled_from(WORDS),
        "namespace": st.sampled_from(["x", "y"]),
        "aliases": st.sampled_from([None, ("go",), ("a", "run")]),
        "reads": st.booleans(),
        "defers": st.booleans(),
        "gate": st.sampled_from([(), ("shut",)]),
    }
)


def tool_of(said):
    tool = scripted_tool(
        said["name"],
        namespace=said["namespace"],
        is_read_only=said["reads"],
        should_defer=said["defers"],
        feature_gate_refs=said["gate"],
    )
    tool_id = f"tool_{said['number']}"
    declaration = replace(tool.declaration, tool_id=tool_id, aliases=said["aliases"])
    return changed(tool, declaration=declaration, interface=replace(tool.interface, tool_id=tool_id))


def surface_of(roster, situation):
    policy = SurfacePolicy(max_tools=4)
    fates = decide_fates(roster, situation, Wish(policy=policy))
    making = Making(surface_id="s", created_at="t", request=SurfaceRequest(), situation=situation, policy=policy)
    return Surface(record=record_of(fates, making), fates=fates, request=making.request, situation=situation)


def looked_at(roster):
    """Tell all that a roster says of its tools: the surfaces made of it, and what names mean on them."""
    told = []
    for situation in SITUATIONS:
        made = surface_of(roster, situation)
        meanings = {
            name: found if isinstance(found := made.resolve(name), Unresolved) else found.tool_id
            for name in (*WORDS, "go", "run", *(f"{ns}.{word}" for ns in "xy" for word in WORDS), "tool_3")
        }
        lists = {name: sorted(getattr(made.record, name), key=attrgetter("tool_id")) for name in ABSENT}
        told.append((replace(made.record, **dict.fromkeys(ABSENT)), lists, meanings))
    return told


PLAIN = {"number": 0, "name": "a", "namespace": "y", "aliases": None, "reads": False, "defers": False, "gate": ()}
X_FIRST, RENAMED, LATE = (
    PLAIN | {"namespace": "x"},
    PLAIN | {"aliases": ("go",)},
    PLAIN | {"number": 1, "namespace": "x"},
)


@pytest.mark.slow
@given(steps=st.lists(declared | st.just("look"), max_size=12))
@example([X_FIRST, PLAIN, "look", RENAMED, LATE])
def test_a_roster_of_any_moment_is_like_one_of_a_catalog_that_was_filled_just_now(steps):
    catalog, kept = Catalog(), []
    tools = {}
    for step in steps:
        if step == "look":
            kept.append((catalog.roster(), dict(tools)))
            continue
        tool = tool_of(step)
        with suppress(ConfigError):  # another one has this name
            catalog.declare(tool)
            tools[step["number"]] = tool
    kept.append((catalog.roster(), tools))
    for roster, there in kept:
        fresh = Catalog()
        for tool in there.values():
            fresh.declare(tool)
        assert looked_at(roster) == looked_at(fresh.roster())


def test_one_tool_more_or_another_in_its_place_leaves_nearly_everything_where_it_is():
    catalog = Catalog()
    for number in range(20):
        catalog.declare(scripted_tool(f"t{number}"))
    before = catalog.roster()
    catalog.declare(scripted_tool("t20"))
    grown = catalog.roster()
    assert (grown.names, grown.columns) == (before.names, before.columns)
    assert (before.size, grown.size) == (20, 21)
    tool = scripted_tool("t3")
    catalog.declare(changed(tool, declaration=replace(tool.declaration, description="other words")))
    replaced = catalog.roster()
    assert replaced.names is before.names
    assert before.entries[3].tool.declaration.description != replaced.entries[3].tool.declaration.description


def test_a_surface_of_one_tool_more_begins_with_the_lists_of_the_one_before():
    catalog = Catalog()
    for number in range(20):
        catalog.declare(scripted_tool(f"t{number}", should_defer=True))
    before = surface_of(catalog.roster(), Situation())
    (written,) = catalog.roster().written
    catalog.declare(scripted_tool("t20", should_defer=True))
    after = surface_of(catalog.roster(), Situation())
    assert after.record.deferred_tools[:20] == before.record.deferred_tools == written.deferred_refs
    assert after.record.selection_policy["deferred_tokens"] > before.record.selection_policy["deferred_tokens"]


def test_more_kinds_of_tools_than_a_byte_can_tell_apart_are_told_apart():
    catalog = Catalog()
    for number in range(300):
        catalog.declare(scripted_tool(f"t{number}", feature_gate_refs=(f"gate_{number}",)))
        catalog.roster()
    only_one = Situation(circumstances=Circumstances(gates=frozenset({"gate_299"})))
    assert surface_of(catalog.roster(), only_one).record.loaded_tools == ("tool_test.t299",)


@given(st.lists(st.text(alphabet="abx.*?[!]-", min_size=1, max_size=5), min_size=1, max_size=3))
def test_a_role_may_use_what_fits_one_of_its_patterns_and_nothing_else(patterns):
    catalog = Catalog()
    for namespace in ("a", "x", "a.b"):
        for name in ("a", "b", "ab", "x-b", "b_a"):
            catalog.declare(scripted_tool(name, namespace=namespace))
    roster = catalog.roster()
    meant = [*patterns, *(f"*.{each}" for each in patterns if not set(".*?[") & set(each))]
    fits = [any(fnmatchcase(name, each) for each in meant) for name in roster.names.qualified]
    assert list(map(bool, roster.for_role(Role(name="r", tools=tuple(patterns))))) == fits
    left = roster.for_role(Role(name="r", without=tuple(patterns)))
    assert list(map(bool, left)) == [not each for each in fits]


def test_a_role_without_a_tool_by_its_bare_name_has_none_of_that_name():
    catalog = Catalog()
    for namespace in ("bank", "shop"):
        catalog.declare(scripted_tool("pay", namespace=namespace))
        catalog.declare(scripted_tool("repay", namespace=namespace))
    surface = surface_of(catalog.roster(), Situation(role=Role(name="clerk", without=("pay",))))
    assert surface.record.loaded_tools == ("tool_bank.repay", "tool_shop.repay")
