"""What records carry for those who read them: models, other schedulers, auditors; and what they never carry."""

import asyncio
import json

import pytest

from agenttool import Runtime, ToolCall, tool
from agenttool.codec import read, write
from agenttool.records import CORE_OBJECTS, AccessKind, SchedulerPolicy, SiblingFailurePolicy, WriteEffect
from agenttool.testing.fakes import scripted_tool

SAFE = {"read_only": True, "concurrency_safe": True, "open_world": False}


@tool(search_hint="send a letter on paper", lifecycle="deferred", open_world=True, access=["external_send"])
async def dispatch(to: str) -> str:
    """Have a sheet carried to somebody. Not for e-mail."""
    return f"sent to {to}"


@tool(**SAFE)
async def look(at: str) -> str:
    """Look at something that is near. Not for what is far away."""
    return f"seen {at}"


@pytest.mark.requirement("AT-MODEL-02")
def test_all_nineteen_objects_of_the_standard_have_a_type_of_their_own():
    standard = """
        tool_declaration tool_interface tool_surface tool_namespace tool_input_contract tool_output_contract
        tool_execution_profile tool_permission_profile tool_permission_decision tool_hook tool_invocation
        tool_scheduler_policy deferred_tool_ref tool_progress tool_result tool_result_persistence tool_error tool_event
        tool_external_mapping
    """
    kinds = [kind for name in standard.split() for kind in CORE_OBJECTS[name]]
    assert len(standard.split()) == 19
    assert len(set(kinds)) == len(kinds)


@pytest.mark.requirement("AT-DECL-09")
@pytest.mark.parametrize("provider", ["openai", "openai_responses", "anthropic", "gemini"])
async def test_the_description_is_what_every_model_reads_of_a_loaded_tool(records, provider):
    async with Runtime.open(tools=[look]) as rt:
        (declaration, *_) = await records(rt, "tool_declaration")
        offered = (await rt.tools_for(provider)).request()
    assert declaration["description"] == "Look at something that is near. Not for what is far away."
    assert declaration["description"] in json.dumps(offered, default=repr)


@pytest.mark.requirement("AT-DECL-07", "AT-DECL-14")
async def test_a_deferred_tool_is_found_by_its_hint_and_its_schema_is_not_in_the_models_list(records):
    async with Runtime.open(tools=[dispatch, look]) as rt:
        surface = await rt.surface()
        request = (await rt.tools_for("openai", surface=surface)).request()
        found = await rt.search("letter", surface=surface)
        by_name = await rt.search("select:dispatch", surface=surface)
        hints = [each.get("search_hint") for each in await records(rt, "tool_declaration")]
    assert 3 <= len(hints[0].split()) <= 10
    assert [each.name for each in found.matches] == ["local.dispatch"] == [each.name for each in by_name.matches]
    offered = {each["function"]["name"]: each["function"] for each in request["tools"]}
    assert offered.keys() == {"look", "tool_search"}
    assert "carried to somebody" not in json.dumps(offered)


@pytest.mark.requirement("AT-DECL-19", "AT-IO-08")
async def test_nothing_is_of_a_custom_kind_and_every_contract_takes_arguments_in_a_way_of_the_list(records):
    async with Runtime.open(tools=[dispatch, look, scripted_tool("plain")]) as rt:
        await rt.surface()
        declarations = await records(rt, "tool_declaration")
    assert "custom" not in {each["tool_kind"] for each in declarations}
    modes = {each["input_contract"].get("argument_mode", "json") for each in declarations}
    assert modes <= {"json", "text", "file", "multipart", "stream", "custom"}


@pytest.mark.requirement("AT-IFACE-09")
async def test_the_six_facts_of_safety_are_reported_of_every_tool(records, changed):
    confined = changed(scripted_tool("run"), interface={"sandbox_profile": "no-network", "is_destructive": True})
    async with Runtime.open(tools=[dispatch, look, confined]) as rt:
        recorded = {each["tool_id"]: each for each in await records(rt, "tool_interface")}
    facts = ("is_read_only", "is_destructive", "is_open_world", "requires_user_interaction", "classifier_input")
    found = {tool_id: tuple(each[fact] for fact in facts) for tool_id, each in recorded.items()}
    assert found["tool_local.dispatch"] == (False, False, True, False, "")
    assert found["tool_local.look"] == (True, False, False, False, "")
    assert found["tool_test.run"] == (False, True, True, False, "")
    assert recorded["tool_test.run"]["sandbox_profile"] == "no-network"


@pytest.mark.requirement("AT-PERM-03", "AT-PERM-04")
async def test_a_profile_states_access_and_effects_in_the_words_of_the_lists(records, call, error):
    @tool(access=list(AccessKind), write_effects=list(WriteEffect)[1:], open_world=True)
    async def everything() -> str:
        """Do all there is. Not for the careful."""
        return "done"

    async with Runtime.open(tools=[everything, look], mode="read_only") as rt:
        everywhere, nowhere = await records(rt, "tool_permission_profile")
        refused = await call(rt, "everything", {})
        seen = await call(rt, "look", {"at": "a tree"})
    assert everywhere["access_kinds"] == [
        *("file_read", "file_write", "network", "browser"),
        *("credential", "payment", "external_send", "code_execution"),
    ]
    assert everywhere["write_effects"] == ["local_draft", "local_persistent", "remote_mutation", "irreversible"]
    assert nowhere["write_effects"] == ["none"]
    assert (error(refused), seen.status) == ("blocked_tool", "succeeded")


@pytest.mark.requirement("AT-SCHED-11")
async def test_a_call_stands_in_the_queue_by_one_of_five_names(allow, begun, hook, records):
    seen, release = set(), asyncio.Event()

    async def wait(job):
        await release.wait()

    async def fail(job):
        raise ValueError("as asked")

    async def note(question=None):
        seen.update(each["scheduler"]["state"] for each in await records(rt, "tool_invocation") if "scheduler" in each)

    tools = [
        scripted_tool("wait", wait),
        scripted_tool("hang", lambda _: asyncio.Event().wait(), is_concurrency_safe=True),
        scripted_tool("fail", fail, is_concurrency_safe=True),
    ]
    policy = SchedulerPolicy(scheduler_policy_id="p", sibling_failure_policy=SiblingFailurePolicy.CANCEL_SIBLINGS)
    async with Runtime.open(tools=tools, rules=allow, hooks=[hook(note, "post_tool_use")]) as rt:
        surface = await rt.surface()
        calls = [asyncio.ensure_future(rt.call("wait", {}, surface=surface)) for _ in range(2)]
        await begun(rt)
        await note()
        release.set()
        await asyncio.gather(*calls)
        pair = [ToolCall(name="hang", arguments={}), ToolCall(name="fail", arguments={})]
        await rt.batch(pair, surface=surface, policy=policy)
        await note()
    assert seen == {"queued", "executing", "completed", "yielded", "discarded"}


@pytest.mark.requirement("AT-SCHED-22")
async def test_a_scheduler_that_knows_nothing_but_the_records_lets_nothing_unsafe_overlap(records):
    inside, most = [], {}

    def probe(name, **facts):
        async def work() -> str:
            """Work. Not for play."""
            inside.append(name)
            most[name] = max(most.get(name, 0), len(inside))
            await asyncio.sleep(0.001)
            inside.remove(name)
            return name

        return tool(name=name, **facts)(work)

    tools = [probe("read", **SAFE), probe("peek", **SAFE), probe("write", open_world=False), probe("unsaid")]
    async with Runtime.open(tools=tools) as rt:
        interfaces = {each["tool_id"].rpartition(".")[2]: each for each in await records(rt, "tool_interface")}

    together, alone = [], []
    for name in ("read", "write", "peek", "unsaid", "read"):
        (together if interfaces[name]["is_concurrency_safe"] else alone).append(name)
    bare = {each.declared.declaration.name: each for each in tools}
    await asyncio.gather(*(bare[name]() for name in together))
    for name in alone:
        await bare[name]()
    assert most == {"read": 3, "peek": 2, "write": 1, "unsaid": 1}


@pytest.mark.requirement("AT-PIPE-20")
async def test_a_result_reads_the_same_to_the_byte_in_the_next_process_and_the_one_after(tmp_path):
    @tool(**SAFE)
    async def odd() -> dict[str, object]:
        """Give what is easily written in two ways. Not for the even."""
        return {"b": 1.0, "a": {"z": None, "é": "\u2028😀"}, "set": sorted({"x", "y"})}

    store = f"sqlite:{tmp_path}/calls.db"
    async with Runtime.open(tools=[odd], store=store) as rt:
        made = await rt.call("odd", {}, surface=await rt.surface())
    texts = [write(made)]
    for _ in range(2):
        async with Runtime.open(tools=[odd], store=store) as rt:
            texts.append(write(await rt.journal.result(made.invocation_id)))
    assert texts[0] == texts[1] == texts[2]
    assert read(texts[0], type(made)).model_facing_content == made.model_facing_content


@pytest.mark.requirement("AT-PERS-02")
async def test_the_next_request_of_a_model_has_the_model_facing_content_and_no_more():
    @tool(**SAFE)
    async def long() -> str:
        """Give more than anybody wants to read. Not for haste."""
        return "x" * 100_000

    async with Runtime.open(tools=[long]) as rt:
        tools = await rt.tools_for("openai")
        function = {"name": "long", "arguments": "{}"}
        reply = {"role": "assistant", "tool_calls": [{"id": "call_1", "type": "function", "function": function}]}
        turn = await tools.answer(reply)
    (answer,) = [each for each in turn.messages if each["role"] == "tool"]
    (result,) = turn.results
    assert answer["content"] == "".join(each.text for each in result.model_facing_content)
    assert len(answer["content"]) < 50_000
