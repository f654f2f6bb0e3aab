"""What was too large to show can be read, a stretch at a time, by the caller that read the preview."""

import json
import re
from contextlib import asynccontextmanager

import pytest

from agenttool import Role, Runtime, tool
from agenttool.codec import digest_of_bytes
from agenttool.policy.rules import Rule
from agenttool.records import Behavior, RuleSource
from agenttool.results.preview import MAX_CHARS

ALLOW = [Rule(ref="all", behavior=Behavior.ALLOW, source=RuleSource.CLI_ARG, tools=("*",))]
TEXT = "".join(f"line {number} ä\n" for number in range(1, 20_001))


@tool
async def dump(text: str = TEXT) -> str:
    """Return a log. Not for a little."""
    return text


@tool
async def shot() -> bytes:
    """Take a picture. Not for text."""
    return b"\x89PNG\r\n\x1a\n" + b"\xff" * 100


def recorded(result):
    return result.model_facing_content[0].text


def named_in(text):
    name, arguments = re.search(r"call ([\w.]+) with (\{[^}]*\})", text).groups()
    return name, json.loads(arguments)


@pytest.fixture(params=["memory:", "sqlite:"])
def opened(request, tmp_path):
    """Open a runtime, and give it with a surface and the preview of a large result."""
    place = request.param if request.param == "memory:" else f"sqlite:{tmp_path}/calls.db"

    @asynccontextmanager
    async def opening():
        async with Runtime.open(tools=[dump, shot], rules=ALLOW, store=place) as rt:
            surface = await rt.surface(only=["dump", "shot"])
            yield rt, surface, recorded(await rt.call("dump", {}, surface=surface))

    return opening


async def test_following_what_each_answer_names_reads_everything(opened):
    parts = []
    async with opened() as (rt, surface, preview):
        name, arguments = named_in(preview)
        arguments |= {"start_line": 1, "end_line": 900}
        for _ in range(100):
            answer = recorded(await rt.call(name, arguments, surface=surface))
            body, _, note = answer.rpartition("[lines")
            parts.append(body)
            if note.endswith("the end]"):
                break
            name, arguments = named_in(note)
    assert "".join(parts) == TEXT


async def test_reading_back_is_bounded_and_never_stored_again(opened):
    async with opened() as (rt, surface, preview):
        _, arguments = named_in(preview)
        wide = {"payload_id": arguments["payload_id"], "start_line": 1, "end_line": 20_000}
        result = await rt.call("read_result", wide, surface=surface)
    assert MAX_CHARS <= len(recorded(result)) < MAX_CHARS + 300
    assert result.persistence_refs is None
    assert not [item for item in result.content if item.type == "persisted_output_ref"]


async def test_reading_back_asks_no_approver():
    rules = [Rule(ref="dump", behavior=Behavior.ALLOW, source=RuleSource.CLI_ARG, tools=("local.dump",))]
    async with Runtime.open(tools=[dump], rules=rules, approve="deny") as rt:
        surface = await rt.surface()
        name, arguments = named_in(recorded(await rt.call("dump", {}, surface=surface)))
        assert not (await rt.call(name, arguments, surface=surface)).is_error


async def test_it_is_offered_on_surfaces_from_the_first_stored_result_on():
    async with Runtime.open(tools=[dump], rules=ALLOW) as rt:
        before = await rt.surface()
        unknown = await rt.call("read_result", {"payload_id": "x"}, surface=before)
        await rt.call("dump", {}, surface=before)
        after = await rt.surface()
    assert unknown.error.error_class == "unknown_tool"
    assert "tool_agenttool.read_result" not in before.loaded_tools
    assert "tool_agenttool.read_result" in after.loaded_tools


@pytest.mark.parametrize("context", [{"role": Role(name="clerk", tools=("local.dump",))}, {"only": ["dump"]}])
@pytest.mark.parametrize("store", ["memory:", "sqlite:"])
async def test_no_surface_says_that_it_excludes_the_tool_and_then_runs_it(tmp_path, store, context):
    place = store if store == "memory:" else f"sqlite:{tmp_path}/calls.db"
    async with Runtime.open(tools=[dump, shot], rules=ALLOW, store=place) as rt:
        before = await rt.surface(**context)
        name, arguments = named_in(recorded(await rt.call("dump", {}, surface=before)))
        for surface in (before, await rt.surface(**context)):
            assert [each.name for each in surface.excluded_tools] == ["local.shot"]
            assert (await rt.call(name, arguments, surface=surface)).ok
            assert [each.name for each in rt.surfaces.offered(surface)] == ["dump", "read_result"]


async def test_a_foreign_tool_with_that_name_hides_neither():
    @tool(read_only=True, open_world=False)
    async def read_result(payload_id: str, start_line: int = 1, end_line: int = 2) -> str:
        """Read it our way. Not for files."""
        return "our way"

    async with Runtime.open(tools=[dump, read_result], rules=ALLOW) as rt:
        for _ in range(2):
            surface = await rt.surface()
            name, arguments = named_in(recorded(await rt.call("dump", {}, surface=surface)))
            assert recorded(await rt.call(name, arguments, surface=surface)).startswith("line ")
            bare = await rt.call("read_result", arguments, surface=surface)
            assert bare.error.error_code == "ambiguous_name"
            assert "call one of 'agenttool.read_result', 'local.read_result'" in bare.error.message
            assert recorded(await rt.call("local.read_result", arguments, surface=surface)) == "our way"
            assert recorded(await rt.call("agenttool.read_result", arguments, surface=surface)).startswith("line ")


async def test_rules_hold_for_reading_back_as_for_any_tool():
    never = Rule(ref="never", behavior=Behavior.DENY, source=RuleSource.CLI_ARG, tools=("agenttool.*",))
    async with Runtime.open(tools=[dump], rules=[*ALLOW, never]) as rt:
        surface = await rt.surface()
        name, arguments = named_in(recorded(await rt.call("dump", {}, surface=surface)))
        denied = await rt.call(name, arguments, surface=surface)
    assert denied.error.error_class == "permission_denied"


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"payload_id": "payload:sha256:" + "0" * 64}, "it has expired, or is of another actor or conversation"),
        ({"payload_id": "/etc/passwd"}, "copy the payload_id from a preview"),
        ({"payload_id": "x", "start_line": 5, "end_line": 2}, "end_line 2 lies before start_line 5"),
        ({"payload_id": "x", "start_line": 5, "offset": 2}, "cannot be mixed"),
        ({"payload_id": "x", "limit": 10_000_000}, "at '/limit'"),
    ],
)
async def test_what_cannot_be_read_is_reported_in_words(opened, arguments, words):
    async with opened() as (rt, surface, _):
        result = await rt.call("read_result", arguments, surface=surface)
    assert result.is_error
    assert words in recorded(result)


async def test_a_picture_is_no_text(opened):
    async with opened() as (rt, surface, _):
        image = next(item for item in (await rt.call("shot", {}, surface=surface)).content if item.ref)
        result = await rt.call("read_result", {"payload_id": image.ref.id}, surface=surface)
        assert result.error.error_code == "not_text"
        assert await rt.journal.payload(image.ref, start=1, length=3) == b"PNG"
        assert digest_of_bytes(await rt.journal.payload(image.ref.digest)) == image.ref.digest
        assert await rt.journal.payload("sha256:" + "0" * 64) is None


async def test_stored_output_is_read_back_by_the_process_that_comes_after(tmp_path):
    place = f"sqlite:{tmp_path}/calls.db"
    async with Runtime.open(tools=[dump], rules=ALLOW, store=place, thread="thr_same") as rt:
        name, arguments = named_in(recorded(await rt.call("dump", {}, surface=await rt.surface())))
    async with Runtime.open(store=place, thread="thr_same") as rt:
        more = await rt.call(name, {**arguments, "start_line": 500, "end_line": 501}, surface=await rt.surface())
    assert recorded(more).startswith("line 500 ä\nline 501 ä\n[lines 500 to 501; to continue, call read_result with {")


async def test_stored_output_is_not_read_back_in_another_conversation(tmp_path):
    place = f"sqlite:{tmp_path}/calls.db"
    async with Runtime.open(tools=[dump], rules=ALLOW, store=place) as rt, Runtime.open(store=place) as stranger:
        result = await rt.call("dump", {}, surface=await rt.surface())
        name, arguments = named_in(recorded(result))
        refused = await stranger.call(name, arguments, surface=await stranger.surface())
        assert refused.error.error_code == "payload_gone"
        assert (await rt.call(name, arguments, surface=await rt.surface())).error is None
