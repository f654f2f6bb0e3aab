"""Searching and loading through the runtime: what is revealed, what is never revealed, and what a later surface shows."""

import dataclasses

import pytest

from agenttool import ConfigError, Runtime
from agenttool.codec import to_json
from agenttool.records import Lifecycle, McpMapping, replace
from agenttool.testing.fakes import scripted_tool


def a_tool(name, *, namespace="test", description="", aliases=(), hint=None, lifecycle=Lifecycle.AVAILABLE, **facts):
    tool = scripted_tool(name, namespace=namespace, **{"should_defer": True, **facts})
    recorded = {"description": description, "aliases": aliases, "search_hint": hint, "lifecycle": lifecycle}
    return dataclasses.replace(tool, declaration=replace(tool.declaration, **recorded))


TOOLS = (
    a_tool("read_file", namespace="files", description="Read a file.", should_defer=False),
    a_tool("create_issue", namespace="tracker", description="Write down a fault.", aliases=("new_issue",)),
    a_tool("create_issue", namespace="backlog", description="Add a story."),
    a_tool("zebra", namespace="quokka", description="Has a wombat.", hint="count every numbat"),
)


def names(result):
    return [match.name for match in result.matches]


async def events(rt, wanted):
    found = []
    async for record in rt.journal.export():
        written = to_json(record)
        if written["record_type"] == "tool_event" and wanted in written["event_type"]:
            found.append(written)
    return found


@pytest.mark.requirement("AT-DEFER-08")
@pytest.mark.parametrize(
    "name", ["tracker.create_issue", "new_issue", "tool_tracker.create_issue", "Tracker.Create_Issue"]
)
async def test_a_known_name_selects_one_tool_that_can_be_loaded(name):
    async with Runtime.open(tools=TOOLS) as rt:
        surface = await rt.surface()
        found = await rt.search(f"select:{name}", surface=surface)
        loaded = await rt.load(names(found), surface=surface)
    assert names(found) == ["tracker.create_issue"]
    assert "tool_tracker.create_issue" in loaded.loaded_tools


@pytest.mark.requirement("AT-DEFER-12")
async def test_a_search_returns_all_seven_members():
    async with Runtime.open(tools=TOOLS) as rt:
        surface = await rt.surface()
        selected = await rt.search("select: files.read_file, nothing", surface=surface)
        asked = await rt.search("wombat", surface=surface)
    assert to_json(selected) == {
        "schema_version": "0.2.0",
        "record_type": "tool_search_result",
        "query": "select: files.read_file, nothing",
        "query_type": "select",
        "matches": [
            {
                "tool_id": "tool_files.read_file",
                "name": "files.read_file",
                "score": 1.0,
                "reason": "it is named 'files.read_file'",
            }
        ],
        "total_deferred_tools": 3,
        "pending_providers": [],
        "missing_names": ["nothing"],
        "next_action": "none",
    }
    assert (asked.query_type, asked.missing_names, asked.next_action) == ("keyword", (), "load_schema_then_call")


@pytest.mark.requirement("AT-DEFER-09", "AT-DEFER-13")
@pytest.mark.parametrize(
    ("word", "where"), [("zebra", "name"), ("quokka", "namespace"), ("wombat", "description"), ("numbat", "hint")]
)
async def test_a_word_is_found_in_whichever_field_it_stands(word, where):
    async with Runtime.open(tools=TOOLS) as rt:
        found = await rt.search(f"the {word}", surface=await rt.surface())
    assert names(found) == ["quokka.zebra"]
    assert 0 < found.matches[0].score <= 1
    assert found.matches[0].reason == f"its {where} says {word}"


@pytest.mark.parametrize("query", ["Select:zebra", " select:zebra", "\tSELECT: zebra "])
async def test_select_may_be_written_in_capitals_and_after_space(query):
    async with Runtime.open(tools=TOOLS) as rt:
        found = await rt.search(query, surface=await rt.surface())
    assert (found.query, found.query_type, names(found)) == (query, "select", ["quokka.zebra"])


@pytest.mark.requirement("AT-DEFER-11")
@pytest.mark.parametrize("query", ["xylophonic", "", "   ", "select:", "select:xylophone", "!?", "\ud800"])
async def test_finding_nothing_is_an_answer(query):
    async with Runtime.open(tools=TOOLS) as rt:
        found = await rt.search(query, surface=await rt.surface())
    assert (found.matches, found.next_action, found.total_deferred_tools) == ((), "refine_query", 3)


@pytest.mark.parametrize(
    ("pattern", "found"),
    [
        ("issue$", ["backlog.create_issue", "tracker.create_issue"]),
        ("^FILES[.]", ["files.read_file"]),
        ("wombat|zebra", ["quokka.zebra"]),
        ("create|fault|story", ["backlog.create_issue", "tracker.create_issue"]),
        ("nothing", []),
    ],
)
async def test_a_pattern_finds_tools_by_name_and_description(pattern, found):
    async with Runtime.open(tools=TOOLS) as rt:
        result = await rt.search(f"Regex: {pattern}", surface=await rt.surface())
    assert (result.query_type, names(result)) == ("regex", found)


class Alphabetical:
    """Returns all tools by name, and two that cannot be found."""

    async def retrieve(self, query, tools, limit):
        self.asked = query, limit
        return ["nothing", "tool_bank.pay", *sorted(f"{each.namespace}.{each.name}" for each in tools)]


class Broken:
    async def retrieve(self, query, tools, limit):
        raise RuntimeError("no connection")


async def test_a_retriever_of_the_application_ranks_what_may_be_found():
    retriever = Alphabetical()
    hidden = a_tool("pay", namespace="bank", lifecycle=Lifecycle.DISABLED)
    async with Runtime.open(tools=[*TOOLS, hidden], retriever=retriever) as rt:
        result = await rt.search("anything", surface=await rt.surface(), limit=3)
        selected = await rt.search("select:zebra", surface=await rt.surface())
    assert retriever.asked == ("anything", 3)
    assert names(result) == ["backlog.create_issue", "files.read_file", "quokka.zebra"]
    assert (result.matches[1].score, result.matches[1].reason) == (0.5, "the retriever chose it")
    assert names(selected) == ["quokka.zebra"]


async def test_a_retriever_that_fails_is_logged_and_tools_are_found_by_words(caplog):
    async with Runtime.open(tools=TOOLS, retriever=Broken()) as rt:
        result = await rt.search("wombat", surface=await rt.surface())
    assert names(result) == ["quokka.zebra"]
    assert caplog.messages == [
        "the retriever Broken failed (RuntimeError('no connection')); tools are searched by words"
    ]


async def test_a_name_that_two_tools_share_selects_both_and_loads_neither():
    async with Runtime.open(tools=TOOLS) as rt:
        surface = await rt.surface()
        found = await rt.search("select:create_issue", surface=surface)
        with pytest.raises(
            ConfigError, match=r"2 tools have the name 'create_issue'; load one of 'backlog\.create_issue'"
        ):
            await rt.load(["create_issue"], surface=surface)
    assert sorted(names(found)) == ["backlog.create_issue", "tracker.create_issue"]


@pytest.mark.requirement("AT-DEFER-14")
async def test_a_later_surface_shows_the_chosen_tool_besides_and_no_other():
    async with Runtime.open(tools=TOOLS) as rt:
        before = await rt.surface("task")
        rt.declare(a_tool("latecomer", should_defer=False))
        after = await rt.load(["quokka.zebra"], surface=before)
        again = await rt.load(["new_issue", "files.read_file"], surface=after)
        same = await rt.load(["quokka.zebra"], surface=again)
    assert after.surface_id != before.surface_id
    assert after.scope == "task"
    assert set(after.loaded_tools) - set(before.loaded_tools) == {"tool_quokka.zebra"}
    assert set(again.loaded_tools) - set(after.loaded_tools) == {"tool_tracker.create_issue"}
    assert [ref.tool_id for ref in again.deferred_tools] == ["tool_backlog.create_issue"]
    assert same == again


@pytest.mark.requirement("AT-EVT-05", "AT-DEFER-17")
async def test_a_refused_call_succeeds_once_its_tool_was_found_and_loaded(allow, sound_export):
    async with Runtime.open(tools=TOOLS, rules=allow) as rt:
        surface = await rt.surface()
        refused = await rt.call("zebra", {}, surface=surface)
        await rt.search("zebra wombat", surface=surface)
        loaded = await rt.load(["zebra"], surface=surface)
        done = await rt.call("zebra", {}, surface=loaded)
        deferred, updated = await events(rt, "deferred"), await events(rt, "surface.updated")
        await sound_export(rt)
    assert (refused.error.error_class, done.status) == ("schema_not_loaded", "succeeded")
    assert [each["event_type"] for each in deferred] == ["tool.deferred.discovered", "tool.deferred.loaded"]
    assert [each["data"] for each in deferred] == [
        {"tool_id": "tool_quokka.zebra", "name": "quokka.zebra", "surface_id": surface_id}
        for surface_id in (surface.surface_id, loaded.surface_id)
    ]
    assert [each["data"]["surface_id"] for each in updated] == [loaded.surface_id]


@pytest.mark.requirement("AT-DEFER-16")
@pytest.mark.parametrize("name", ["tracker.create_issue", "new_issue", "tool_tracker.create_issue"])
async def test_no_name_of_a_deferred_tool_reaches_its_executor(name, allow):
    async with Runtime.open(tools=TOOLS, rules=allow) as rt:
        surface = await rt.surface()
        await rt.search(f"select:{name}", surface=surface)
        refused = await rt.call(name, {}, surface=surface)
    assert refused.error.error_class == "schema_not_loaded"
    assert "select:tracker.create_issue" in refused.error.message
    assert TOOLS[1].executor.inputs == []


@pytest.mark.requirement("AT-DEFER-16")
async def test_the_native_name_of_a_deferred_tool_reaches_no_executor_either(allow, changed):
    native = McpMapping(server_id="tracker", tool_name="createIssue")
    probe = changed(TOOLS[1], declaration={"external_mappings": (native,)})
    async with Runtime.open(tools=[probe], rules=allow) as rt:
        surface = await rt.surface()
        assert [ref.tool_id for ref in surface.deferred_tools] == ["tool_tracker.create_issue"]
        refused = [await rt.call(name, {}, surface=surface) for name in ("createIssue", "tracker/createIssue")]
    assert {each.error.error_class for each in refused} == {"unknown_tool"}
    assert probe.executor.inputs == []


HIDDEN = (
    a_tool("hidden_internal", schema_visibility="internal"),
    a_tool("hidden_draft", lifecycle=Lifecycle.DRAFT),
    a_tool("hidden_setup", requires_setup=True),
    a_tool("hidden_key", required_credentials=("key",)),
)


@pytest.mark.parametrize(
    "query", ["hidden", "hidden draft", "select:hidden_draft", "select:test.hidden_key,hidden_setup"]
)
async def test_what_a_surface_leaves_out_is_never_found(query):
    async with Runtime.open(tools=[*TOOLS, *HIDDEN, a_tool("hidden_not_asked_for")]) as rt:
        everything = await rt.surface()
        some = await rt.surface(only=["zebra", "hidden_draft"])
        rt.declare(a_tool("hidden_latecomer"))
        found = [await rt.search(query, surface=each) for each in (everything, some)]
        with pytest.raises(ConfigError, match="no tool that can be loaded on this surface is named 'hidden_draft'"):
            await rt.load(["zebra", "hidden_draft"], surface=everything)
    assert set(names(found[0])) <= {"test.hidden_not_asked_for"}
    assert found[1].matches == ()
    assert found[1].total_deferred_tools == 1


async def test_a_sub_agent_finds_and_loads_nothing_beyond_its_bounds():
    async with Runtime.open(tools=TOOLS) as rt:
        narrow = await rt.load(["zebra"], surface=await rt.surface())
        child = rt.child(narrow)
        own = await child.surface()
        for surface in (narrow, own):
            assert names(await child.search("select:zebra,new_issue", surface=surface)) == ["quokka.zebra"]
            assert names(await child.search("write down a fault", surface=surface)) == []
            with pytest.raises(ConfigError, match="no tool that can be loaded"):
                await child.load(["new_issue"], surface=surface)


async def test_what_is_no_surface_query_limit_or_list_of_names_is_refused():
    async with Runtime.open(tools=TOOLS) as rt, Runtime.open(tools=TOOLS) as other:
        surface, foreign = await rt.surface(), await other.surface()
        with pytest.raises(ConfigError, match="does not know this surface"):
            await rt.search("zebra", surface=foreign)
        with pytest.raises(ConfigError, match="a query must be a string"):
            await rt.search(7, surface=surface)
        with pytest.raises(ConfigError, match="limit must be a positive integer"):
            await rt.search("zebra", surface=surface, limit=0)
        with pytest.raises(ConfigError, match="names must be a list"):
            await rt.load("zebra", surface=surface)
    with pytest.raises(ConfigError, match="closed"):
        await rt.search("zebra", surface=surface)
