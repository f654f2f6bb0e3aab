"""A snapshot stays the same while the catalog changes, and a new one shares what did not change."""

from contextlib import suppress
from dataclasses import replace as changed
from fnmatch import fnmatchcase
from operator import attrgetter

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from agenttool.catalog.catalog import Catalog
from agenttool.catalog.filters import Situation
from agenttool.catalog.surface import Surface, SurfaceRequest
from agenttool.catalog.surface_record import build_surface_record
from agenttool.catalog.unresolved import Unresolved
from agenttool.catalog.visibility import decide_visibility
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


def surface_of(snapshot, situation):
    policy = SurfacePolicy(max_tools=4)
    visibility = decide_visibility(snapshot, situation, policy=policy)
    request = SurfaceRequest()
    record = build_surface_record(
        visibility, surface_id="s", created_at="t", request=request, situation=situation, policy=policy
    )
    return Surface(record=record, visibility=visibility, request=request, situation=situation)


def described(snapshot):
    """Return the surfaces of a snapshot, and what names mean on them."""
    descriptions = []
    for situation in SITUATIONS:
        made = surface_of(snapshot, situation)
        meanings = {
            name: found if isinstance(found := made.resolve(name), Unresolved) else found.tool_id
            for name in (*WORDS, "go", "run", *(f"{ns}.{word}" for ns in "xy" for word in WORDS), "tool_3")
        }
        lists = {name: sorted(getattr(made.record, name), key=attrgetter("tool_id")) for name in ABSENT}
        descriptions.append((replace(made.record, **dict.fromkeys(ABSENT)), lists, meanings))
    return descriptions


PLAIN = {"number": 0, "name": "a", "namespace": "y", "aliases": None, "reads": False, "defers": False, "gate": ()}
X_FIRST, RENAMED, LATE = (
    PLAIN | {"namespace": "x"},
    PLAIN | {"aliases": ("go",)},
    PLAIN | {"number": 1, "namespace": "x"},
)


@pytest.mark.slow
@given(steps=st.lists(declared | st.just("look"), max_size=12))
@example([X_FIRST, PLAIN, "look", RENAMED, LATE])
def test_an_old_snapshot_equals_that_of_a_new_catalog_with_the_same_tools(steps):
    catalog, snapshots = Catalog(), []
    tools = {}
    for step in steps:
        if step == "look":
            snapshots.append((catalog.snapshot(), dict(tools)))
            continue
        tool = tool_of(step)
        with suppress(ConfigError):  # another one has this name
            catalog.add(*catalog.prepare(tool))
            tools[step["number"]] = tool
    snapshots.append((catalog.snapshot(), tools))
    for snapshot, there in snapshots:
        fresh = Catalog()
        for tool in there.values():
            fresh.add(*fresh.prepare(tool))
        assert described(snapshot) == described(fresh.snapshot())


def test_adding_or_replacing_a_tool_shares_the_unchanged_tables():
    catalog = Catalog()
    for number in range(20):
        catalog.add(*catalog.prepare(scripted_tool(f"t{number}")))
    before = catalog.snapshot()
    catalog.add(*catalog.prepare(scripted_tool("t20")))
    grown = catalog.snapshot()
    assert (grown.names, grown.columns) == (before.names, before.columns)
    assert (before.size, grown.size) == (20, 21)
    tool = scripted_tool("t3")
    catalog.add(*catalog.prepare(changed(tool, declaration=replace(tool.declaration, description="other words"))))
    replaced = catalog.snapshot()
    assert replaced.names is before.names
    assert before.entries[3].tool.declaration.description != replaced.entries[3].tool.declaration.description


def test_equal_surfaces_share_their_lists_and_one_more_tool_is_listed():
    catalog = Catalog()
    for number in range(20):
        catalog.add(*catalog.prepare(scripted_tool(f"t{number}", should_defer=True)))
    before = surface_of(catalog.snapshot(), Situation())
    (written,) = catalog.snapshot().last_listed
    assert surface_of(catalog.snapshot(), Situation()).record.deferred_tools is before.record.deferred_tools
    catalog.add(*catalog.prepare(scripted_tool("t20", should_defer=True)))
    after = surface_of(catalog.snapshot(), Situation())
    assert after.record.deferred_tools[:20] == before.record.deferred_tools == written.deferred_refs
    assert after.record.selection_policy["deferred_tokens"] > before.record.selection_policy["deferred_tokens"]


def test_more_than_256_groups_of_traits_are_supported():
    catalog = Catalog()
    for number in range(300):
        catalog.add(*catalog.prepare(scripted_tool(f"t{number}", feature_gate_refs=(f"gate_{number}",))))
        catalog.snapshot()
    only_one = Situation(circumstances=Circumstances(gates=frozenset({"gate_299"})))
    assert surface_of(catalog.snapshot(), only_one).record.loaded_tools == ("tool_test.t299",)


@given(st.lists(st.text(alphabet="abx.*?[!]-", min_size=1, max_size=5), min_size=1, max_size=3))
def test_a_role_may_use_exactly_the_tools_that_match_its_patterns(patterns):
    catalog = Catalog()
    for namespace in ("a", "x", "a.b"):
        for name in ("a", "b", "ab", "x-b", "b_a"):
            catalog.add(*catalog.prepare(scripted_tool(name, namespace=namespace)))
    snapshot = catalog.snapshot()
    meant = [*patterns, *(f"*.{each}" for each in patterns if not set(".*?[") & set(each))]
    fits = [any(fnmatchcase(name, each) for each in meant) for name in snapshot.names.qualified]
    assert list(map(bool, snapshot.for_role(Role(name="r", tools=tuple(patterns))))) == fits
    left = snapshot.for_role(Role(name="r", without=tuple(patterns)))
    assert list(map(bool, left)) == [not each for each in fits]


def test_a_bare_name_excludes_tools_of_every_namespace_from_a_role():
    catalog = Catalog()
    for namespace in ("bank", "shop"):
        catalog.add(*catalog.prepare(scripted_tool("pay", namespace=namespace)))
        catalog.add(*catalog.prepare(scripted_tool("repay", namespace=namespace)))
    surface = surface_of(catalog.snapshot(), Situation(role=Role(name="clerk", without=("pay",))))
    assert surface.record.loaded_tools == ("tool_bank.repay", "tool_shop.repay")
