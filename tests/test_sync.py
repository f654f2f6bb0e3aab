import inspect
import threading

import pytest

from agenttool import ConfigError, Runtime, sync, tool
from agenttool.agent.call_access import CallHandle
from agenttool.providers import ModelTools
from agenttool.testing.replies import ModelCall, reply


@tool(read_only=True, concurrency_safe=True, open_world=False)
async def add(a: int, b: int) -> int:
    """Add. Not for text."""
    return a + b


@tool(approval_required=True)
def pay(amount: int) -> str:
    """Pay. Not for refunds."""
    return f"paid {amount}"


def test_a_program_without_a_loop_can_call_and_decide():
    with sync.open(tools=[add, pay], approve="wait") as rt:
        surface = rt.surface()
        assert rt.call("add", {"a": 1, "b": 2}, surface=surface).structured_content == 3
        results = []
        paying = threading.Thread(target=lambda: results.append(rt.call("pay", {"amount": 5}, surface=surface)))
        paying.start()
        question = wait_for_question(rt)
        assert question.shown == {"amount": 5}
        rt.approvals.decide(question.approval_id, "allow", by="pat")
        paying.join(timeout=60)
        assert results[0].model_facing_content[0].text == "paid 5"
        assert {type(record).__name__ for record in rt.journal.export()} >= {
            "ToolInvocation",
            "ToolResult",
            "PermissionDecision",
        }


def wait_for_question(rt):
    for _ in range(100_000):
        questions = rt.approvals.list()
        if questions:
            return questions[0]
    raise AssertionError("nobody was asked")


def test_a_wrong_setting_is_reported_before_anything_runs():
    with pytest.raises(ConfigError, match="no store answers"), sync.open(store="stone:tablet", approve="wait"):
        pass


def test_the_thread_ends_with_the_block():
    before = threading.active_count()
    with sync.open(tools=[add], approve="wait"):
        pass
    assert threading.active_count() <= before


def test_a_model_is_given_its_tools_and_answered_without_a_loop():
    @tool(read_only=True, open_world=False)
    def double(number: int) -> int:
        """Double a number. Not for text."""
        return 2 * number

    with sync.open(tools=[double], approve="wait") as rt:
        tools = rt.tools_for("openai", tool_choice="double")
        assert tools.request()["tool_choice"] == {"type": "function", "function": {"name": "double"}}
        turn = tools.answer(reply("openai", ModelCall(name="double", arguments={"number": 21}, call_id="call_1")))
    assert turn.result_messages == ({"role": "tool", "tool_call_id": "call_1", "content": "42"},)


def test_tools_that_wait_are_found_loaded_and_called_without_a_loop():
    @tool(read_only=True, open_world=False, should_defer=True, credentials=["vault:key"])
    def weigh(article: str) -> int:
        """Weigh an article. Not for people."""
        return len(article)

    with sync.open(tools=[weigh], approve="wait") as rt:
        bare = rt.surface()
        rt.surfaces.change(credentials=["vault:key"])
        surface = rt.surfaces.current(bare)
        found = rt.search("weigh something", surface=surface)
        loaded = rt.load(found, surface=surface)
        result = rt.call("weigh", {"article": "soap"}, surface=loaded)
    assert (bare.deferred_tools, len(surface.deferred_tools)) == ((), 1)
    assert result.structured_content == 4


def public_names(kind):
    return {name for name in dir(kind) if not name.startswith("_")} - {"target", "loop"}


def parameters(method):
    return list(inspect.signature(method).parameters.values())[1:] if callable(method) else None


async def test_the_synchronous_runtime_has_the_groups_and_methods_of_the_asynchronous_one():
    async with Runtime.open(approve="wait") as rt:
        pairs = [(sync.SyncRuntime(rt, None), rt), (sync.SyncModelTools, ModelTools)]
        groups = [name for name in vars(pairs[0][0]) if name not in {"target", "loop"}]
        pairs += [(getattr(pairs[0][0], name), getattr(rt, name)) for name in groups]
        assert len(groups) == 7
        pairs.append((sync.SyncCallHandle, CallHandle))
        for synchronous, asynchronous in pairs:
            names = public_names(asynchronous) - {"open", "inspection"}  # that one is for programs of the package
            assert public_names(synchronous) - {"surface"} == names - {"surface", "id"}
            for name in names - set(groups):
                ours, theirs = getattr(type(synchronous), name, None), getattr(type(asynchronous), name, None)
                assert parameters(ours) == parameters(theirs), name


def test_opening_takes_the_options_of_the_asynchronous_runtime():
    assert inspect.signature(sync.open) == inspect.signature(Runtime.open)


def test_events_and_records_are_iterated_without_a_loop():
    with sync.open(tools=[add], approve="wait") as rt:
        result = rt.call("add", {"a": 1, "b": 2}, surface=rt.surface())
        events = rt.journal.events()
        position, event = next(events)
        events.close()
        assert (position, event.event_type) == (1, "tool.declared")
        assert rt.journal.result(result.invocation_id) == result


def test_a_handle_has_the_status_of_its_call_also_after_the_block(tmp_path):
    with sync.open(tools=[add, pay], store=tmp_path / "calls.db") as rt:
        call = rt.start("add", {"a": 1, "b": 2})
        assert call.result().value == 3
        found = rt.calls.get(call.id)
        assert [repr(each) for each in (call, found)] == [f"<call {call.id}: succeeded>"] * 2
        assert (call.status, call.tool_id) == (found.status, found.tool_id) == ("succeeded", "tool_local.add")
        waiting, errors = rt.start("pay", {"amount": 5}).idle(), []

        def wait():
            with pytest.raises(ConfigError, match="closed") as error:
                waiting.result()
            errors.append(error)

        waiter = threading.Thread(target=wait)
        waiter.start()
    waiter.join(timeout=60)
    assert len(errors) == 1
    assert repr(call) == f"<call {call.id}: succeeded>"
