"""A tool that answers later: its call waits as a row, and continues with the answer, in whichever process it arrives."""

import asyncio
import dataclasses
import gc
import json
from collections import deque

import pytest
from starting import begin

from agenttool import ConfigError, Runtime
from agenttool.codec import write
from agenttool.durable import recovery
from agenttool.errors import CredentialMissing, ToolFailure
from agenttool.ports.deferred import DEFERRED, AnswerStatus, Prompt, PromptKind, PromptOutcome, ReplyOutcome
from agenttool.records import ErrorClass, InvocationStatus, ToolError
from agenttool.results.failure import guided
from agenttool.testing.fakes import scripted_tool


class Answers:
    """The other side: records what it was sent, and answers when a test asks it to."""

    async def may_resend(self, invocation_id):
        return True

    def __init__(self, within_s=None):
        self.within_s = within_s
        self.sent, self.withdrawn, self.replies = [], [], []
        self.on_send = None

    def until_ns(self, invocation_id, started_ns):
        return None if self.within_s is None else started_ns + round(self.within_s * 1e9)

    def why_over(self, invocation_id, now_ns):
        return None

    async def send(self, job):
        self.sent.append((job.invocation_id, dict(job.call_input), job.thread.thread_id))
        if self.on_send is not None:
            return await self.on_send(job)
        return DEFERRED

    def read(self, body):
        said = json.loads(body)
        if "error" in said:
            raise ToolFailure(ToolError(error_class=ErrorClass.EXECUTION_FAILED, message=said["error"]))
        return said["value"]

    def withdraw(self, invocation_id, thread):
        self.withdrawn.append((invocation_id, thread.thread_id))

    async def reply(self, prompt, selected):
        self.replies.append((prompt.prompt_id, selected))
        return ReplyOutcome.ACCEPTED

    def tool(self, name="ask", **facts):
        made = scripted_tool(name, self.send, namespace="far", is_concurrency_safe=True, **facts)
        return dataclasses.replace(made, later=self)


@pytest.fixture(autouse=True)
def _in_a_hurry(monkeypatch):
    monkeypatch.setattr(recovery, "POLL_S", 0.02)
    monkeypatch.setattr(recovery, "RECOVER_EVERY_S", 0.05)


@pytest.fixture(params=["memory", "sqlite"])
def store(request, tmp_path):
    return "memory:" if request.param == "memory" else f"sqlite:{tmp_path}/state.db"


@pytest.fixture
def opened(allow):
    def opened(store, *others, **options):
        tools = [other.tool() if isinstance(other, Answers) else other for other in others]
        return Runtime.open(store=store, tools=tools, rules=allow, **options)

    return opened


def answer(value):
    return json.dumps({"value": value}).encode()


async def one_waiting(rt):
    for _ in range(2000):
        if (found := await rt.deferred.list()) and found[0].is_sent:
            return found[0]
        await asyncio.sleep(0.005)
    raise TimeoutError


async def test_a_caller_waits_for_the_answer(store, opened):
    far = Answers()
    async with opened(store, far) as rt:
        calling = asyncio.ensure_future(rt.call("ask", {"n": 1}, surface=await rt.surface()))
        waiting = await one_waiting(rt)
        assert (await rt.journal.invocation(waiting.invocation_id)).status is InvocationStatus.RUNNING
        assert await rt.deferred.deliver(waiting.invocation_id, answer("forty-two")) is AnswerStatus.ACCEPTED
        result = await calling
        assert (result.error, result.content[0].text) == (None, "forty-two")
        assert await rt.deferred.deliver(waiting.invocation_id, answer("late")) is AnswerStatus.ANSWERED
        assert await rt.deferred.list() == ()
        assert await rt.journal.result(result.invocation_id) == result


TOKEN = "ghp_0123456789abcdef"  # noqa: S105 -- not a real one


@pytest.mark.parametrize("has_token", [True, False])
async def test_a_result_that_arrives_after_a_restart_does_not_contain_the_credential_of_its_call(
    tmp_path, opened, has_token
):
    def fetch():
        if vault:
            return vault[0]
        raise CredentialMissing("locked")

    far, vault = Answers(), [TOKEN]
    store, repeated = f"sqlite:{tmp_path}/state.db", answer(f"done with {TOKEN}")
    tool = far.tool(required_credentials=("github",))
    async with opened(store, tool, credentials={"github": fetch}) as rt:
        started = await begin(rt, "ask", {}, surface=await rt.surface())
    if not has_token:
        vault.clear()
    async with opened(store, tool, credentials={"github": fetch}) as rt:
        assert await rt.deferred.deliver(started.invocation_id, repeated) is AnswerStatus.ACCEPTED
        result = await rt.calls.get(started.invocation_id).result()
        records = [write(record).decode() async for record in rt.journal.export()]
    if has_token:
        assert result.text == "done with [redacted]"
    else:
        assert (result.error.error_class, result.error.retry.safe) == ("credential_missing", False)
        assert "its result is withheld, because it may contain a credential" in result.error.message
    assert TOKEN not in "".join(records)


async def test_a_started_call_is_a_row_until_its_answer_comes(store, opened):
    far = Answers()
    async with opened(store, far) as rt:
        invocation = await begin(rt, "ask", {"n": 1}, surface=await rt.surface())
        assert invocation.status is InvocationStatus.RUNNING
        assert invocation == await rt.journal.invocation(invocation.invocation_id)
        assert rt.calls.open_ids() == ()
        assert await rt.calls.get(invocation.invocation_id).result(within_s=0.01) is None
        assert await rt.deferred.deliver(invocation.invocation_id, answer("done")) is AnswerStatus.ACCEPTED
        result = await rt.calls.get(invocation.invocation_id).result()
        assert (result.invocation_id, result.content[0].text) == (invocation.invocation_id, "done")
        recorded = await rt.journal.invocation(invocation.invocation_id)
        assert recorded.status is InvocationStatus.SUCCEEDED


async def test_an_answer_may_come_before_the_acknowledgement(store, opened):
    far = Answers()
    async with opened(store, far) as rt:

        async def answer_first(job):
            assert await rt.deferred.deliver(job.invocation_id, answer("quick")) is AnswerStatus.ACCEPTED
            return DEFERRED

        far.on_send = answer_first
        surface = await rt.surface()
        assert (await rt.call("ask", {}, surface=surface)).content[0].text == "quick"
        started = await begin(rt, "ask", {}, surface=surface)
        assert (await rt.calls.get(started.invocation_id).result()).content[0].text == "quick"


async def test_an_answer_counts_even_if_the_acknowledgement_never_came(store, opened):
    far = Answers()
    async with opened(store, far) as rt:

        async def answer_then_fail(job):
            await rt.deferred.deliver(job.invocation_id, answer("received all the same"))
            raise ConnectionError("cut")

        far.on_send = answer_then_fail
        result = await rt.call("ask", {}, surface=await rt.surface())
        assert result.content[0].text == "received all the same"


async def test_a_failure_is_an_answer_too(store, opened):
    far = Answers()
    async with opened(store, far) as rt:
        started = await begin(rt, "ask", {}, surface=await rt.surface())
        await rt.deferred.deliver(started.invocation_id, b'{"error": "no such bed"}')
        result = await rt.calls.get(started.invocation_id).result()
        assert (result.error.error_class, result.error.message) == (ErrorClass.EXECUTION_FAILED, "no such bed")


async def test_a_stranger_s_answer_settles_no_call(store, opened):
    async with opened(store, Answers()) as rt:
        assert await rt.deferred.deliver("inv_" + "0" * 32, answer("?")) is AnswerStatus.UNKNOWN


@pytest.mark.parametrize("started", [True, False])
async def test_a_call_whose_answer_is_overdue_ends_as_timed_out(store, opened, started):
    far = Answers(within_s=0.05)
    async with opened(store, far) as rt:
        surface = await rt.surface()
        if started:
            invocation = await begin(rt, "ask", {}, surface=surface)
            result = await rt.calls.get(invocation.invocation_id).result()
        else:
            result = await rt.call("ask", {}, surface=surface)
        assert result.error.error_class is ErrorClass.TIMEOUT
        assert far.withdrawn == [(result.invocation_id, rt.calls.thread.thread_id)]
        assert await rt.deferred.deliver(result.invocation_id, answer("too late")) is not AnswerStatus.ACCEPTED
        assert (await rt.journal.result(result.invocation_id)).error.error_class is ErrorClass.TIMEOUT


@pytest.mark.parametrize("started", [True, False])
async def test_a_call_that_waits_can_be_canceled(store, opened, started):
    far = Answers()
    async with opened(store, far) as rt:
        surface = await rt.surface()
        calling = None
        if started:
            invocation_id = (await begin(rt, "ask", {}, surface=surface)).invocation_id
        else:
            calling = asyncio.ensure_future(rt.call("ask", {}, surface=surface))
            invocation_id = (await one_waiting(rt)).invocation_id
        assert await rt.cancel(invocation_id)
        result = await rt.calls.get(invocation_id).result()
        assert result.error.error_class is ErrorClass.CANCELED
        assert calling is None or await calling == result
        assert far.withdrawn == [(invocation_id, rt.calls.thread.thread_id)]
        assert not await rt.cancel(invocation_id)


async def test_waiting_calls_delay_no_other_call(store, opened):
    far = Answers()
    async with opened(store, far, scripted_tool("pay")) as rt:
        surface = await rt.surface()
        calling = asyncio.ensure_future(rt.call("ask", {}, surface=surface))
        waiting = await one_waiting(rt)
        assert (await rt.call("pay", {}, surface=surface)).error is None
        await rt.deferred.deliver(waiting.invocation_id, answer(1))
        assert (await calling).error is None


async def test_what_was_refused_is_reported_and_not_withdrawn(store, opened):
    far = Answers()
    async with opened(store, far) as rt:

        async def refuse(job):
            raise ToolFailure(
                guided(ErrorClass.EXECUTION_FAILED, phase="execute", message="404: no such tool", effects=False)
            )

        far.on_send = refuse
        result = await rt.call("ask", {}, surface=await rt.surface())
        assert result.error.message == "404: no such tool"
        assert far.withdrawn == []


@pytest.mark.requirement("AT-INV-12")
@pytest.mark.parametrize("started", [True, False])
async def test_a_call_that_needs_a_choice_is_answered_once_and_continues(store, opened, started):
    far = Answers()
    async with opened(store, far) as rt:
        surface = await rt.surface()
        if started:
            await begin(rt, "ask", {}, surface=surface)
        calling = None if started else asyncio.ensure_future(rt.call("ask", {}, surface=surface))
        waiting = await one_waiting(rt)
        unique = waiting.invocation_id.partition("_")[2]
        prompt = Prompt(
            prompt_id=f"prm_{unique}-1",
            invocation_id=waiting.invocation_id,
            tool_id=waiting.tool_id,
            tool_name="far.ask",
            thread_id=waiting.thread.thread_id,
            kind=PromptKind.CHOICE,
            message="Open the valve?",
            choices=("yes", "no"),
            default=1,
            asked_at_ns=1,
        )
        assert await rt.deferred.ask(prompt, 9) is PromptOutcome.PUT_UP
        assert await rt.prompts.list() == (prompt,)
        assert (await rt.journal.invocation(waiting.invocation_id)).status is InvocationStatus.NEEDS_INPUT
        assert not (await rt.prompts.choose(prompt.prompt_id, 2)).is_taken
        chosen = await rt.prompts.choose(prompt.prompt_id, None)
        assert (chosen.is_taken, chosen.is_delivered, far.replies) == (True, True, [(prompt.prompt_id, 1)])
        assert not (await rt.prompts.choose(prompt.prompt_id, 0)).is_taken
        assert await rt.prompts.list() == ()
        assert (await rt.journal.invocation(waiting.invocation_id)).status is InvocationStatus.RUNNING
        await rt.deferred.deliver(waiting.invocation_id, answer("closed"))
        result = await rt.calls.get(waiting.invocation_id).result()
        assert result.content[0].text == "closed"
        assert calling is None or await calling == result
        assert await rt.deferred.ask(prompt, 9) is PromptOutcome.NOT_AWAITED
        assert await rt.prompts.list() == ()


async def test_a_prompt_goes_when_its_call_ends(store, opened):
    far = Answers()
    async with opened(store, far) as rt:
        started = await begin(rt, "ask", {}, surface=await rt.surface())
        unique = started.invocation_id.partition("_")[2]
        await rt.deferred.ask(
            Prompt(
                prompt_id=f"prm_{unique}-1",
                invocation_id=started.invocation_id,
                tool_id=started.tool_id,
                tool_name="far.ask",
                thread_id="t",
                kind=PromptKind.AUTHORIZATION,
                message="Authorize",
                url="https://id.example/secret",
                asked_at_ns=1,
            ),
            9,
        )
        assert not (await rt.prompts.choose(f"prm_{unique}-1", 0)).is_taken
        await rt.deferred.deliver(started.invocation_id, answer("ok"))
        await rt.calls.get(started.invocation_id).result()
        assert await rt._core.durability.documents.get("prompt", started.invocation_id) is None


async def test_a_runtime_that_closes_leaves_what_waits_to_the_next(tmp_path, opened):
    store, far = f"sqlite:{tmp_path}/state.db", Answers()
    async with opened(store, far) as rt:
        surface = await rt.surface()
        calling = asyncio.ensure_future(rt.call("ask", {"n": 1}, surface=surface))
        attached = (await one_waiting(rt)).invocation_id
        left = (await begin(rt, "ask", {"n": 2}, surface=surface)).invocation_id
    assert (await calling).error.error_class is ErrorClass.CANCELED
    assert far.withdrawn == []
    async with opened(store, far) as rt:
        assert [each.invocation_id for each in await rt.deferred.list()] == [attached, left]
        for each in (attached, left):
            assert await rt.deferred.deliver(each, answer("after all")) is AnswerStatus.ACCEPTED
            assert (await rt.calls.get(each).result()).content[0].text == "after all"
    assert len(far.sent) == 2


async def test_another_process_brings_the_answer(tmp_path, opened):
    store, far = f"sqlite:{tmp_path}/state.db", Answers()
    async with opened(store, far) as here, opened(store, Answers()) as there, opened(store) as stranger:
        surface = await here.surface()
        calling = asyncio.ensure_future(here.call("ask", {}, surface=surface))
        attached = (await one_waiting(there)).invocation_id
        assert await stranger.deferred.deliver(attached, answer("from afar")) is AnswerStatus.ACCEPTED
        assert (await calling).content[0].text == "from afar"
        left = (await begin(here, "ask", {}, surface=surface)).invocation_id
        assert await stranger.deferred.deliver(left, answer("again")) is AnswerStatus.ACCEPTED
        assert (await here.calls.get(left).result()).content[0].text == "again"
        assert await there.deferred.deliver(left, answer("no")) is AnswerStatus.ANSWERED


async def test_in_memory_what_waits_ends_with_the_runtime(opened):
    far = Answers()
    rt = opened("memory:", far)
    async with rt:
        left = (await begin(rt, "ask", {}, surface=await rt.surface())).invocation_id
    result = await rt.journal.result(left)
    assert (result.error.error_class, result.error.abort_reason) == (ErrorClass.CANCELED, "runtime_shutdown")
    assert far.withdrawn == [(left, rt.calls.thread.thread_id)]


async def test_no_object_of_a_call_that_was_left_stays_behind(tmp_path, opened):
    far = Answers()
    far.sent = deque(maxlen=0)
    async with opened(f"sqlite:{tmp_path}/state.db", far) as rt:
        surface = await rt.surface()
        for _ in range(20):
            await begin(rt, "ask", {}, surface=surface)
        gc.collect()
        before = len(gc.get_objects())
        for _ in range(300):
            await begin(rt, "ask", {}, surface=surface)
        gc.collect()
        assert len(gc.get_objects()) - before < 300
        assert len(await rt.deferred.list()) == 320


async def test_a_call_that_has_a_name_is_started_once(store, opened):
    far = Answers()
    async with opened(store, far) as rt:
        name = rt.calls.new_id()
        surface = await rt.surface()
        started = [await begin(rt, "ask", {"n": 1}, surface=surface, invocation_id=name) for _ in range(2)]
        assert [call.invocation_id for call in started] == [name, name]
        assert len(far.sent) == 1
        for other in ("inv_1", 5):
            with pytest.raises(ConfigError, match=r"is not an id of rt.calls.new_id\(\)"):
                await begin(rt, "ask", {"n": 1}, surface=surface, invocation_id=other)


@pytest.mark.parametrize("looks", ["itself", "another"])
@pytest.mark.slow
async def test_a_call_that_is_left_during_a_recovery_continues_to_wait(tmp_path, opened, looks, monkeypatch):
    far, place, acknowledged = Answers(within_s=3600), f"sqlite:{tmp_path}/state.db", asyncio.Event()

    async def send(job):
        await acknowledged.wait()
        return DEFERRED

    far.on_send = send
    async with opened(place, far, lease_s=1.0) as rt, opened(place, far) as other:
        rt._agent.recovery._task.cancel()  # it is so busy that it does not come to say that it lives
        other._agent.recovery._task.cancel()
        looking = rt if looks == "itself" else other
        starting = asyncio.ensure_future(begin(rt, "ask", {"n": 1}, surface=await rt.surface()))
        calls, really_due = looking._core.durability.checkpoints, looking._core.durability.checkpoints.due
        async with asyncio.timeout(60):
            while not await really_due(now=rt._core.clock.moment(), limit=9):  # noqa: ASYNC110 -- until it passes for dead
                await asyncio.sleep(0.05)

        async def due(**asked):
            found = await really_due(**asked)
            if found:
                acknowledged.set()
                await starting
            return found

        monkeypatch.setattr(calls, "due", due)
        assert await looking._agent.recovery.recover() == 0
        acknowledged.set()
        invocation = await starting
        assert (far.withdrawn, [each.invocation_id for each in await rt.deferred.list()]) == (
            [],
            [invocation.invocation_id],
        )
        assert await other.deferred.deliver(invocation.invocation_id, answer("there")) is AnswerStatus.ACCEPTED
        result = await other.calls.get(invocation.invocation_id).result(within_s=60)
        assert (result.error, result.content[0].text) == (None, "there")
        assert len(far.sent) == 1
