"""A tool asks its user, waits, and goes on with the answer, also in another process."""

import asyncio

import pytest

from agenttool.rap import Limits, RapCall

LABELS = ["Open it", "Open for 2 minutes", "Leave closed"]


@pytest.fixture
def valves(make):
    """Make a provider whose tool asks before it acts, and the list of what it did."""

    def valves(**options):
        provider, opened = make(), []

        @provider.tool(destructive=True)
        async def open_valve(name: str, call: RapCall) -> str:
            """Open a valve, after asking."""
            picked = await call.choose(f"Open {name}?", LABELS, **options)
            if picked == LABELS[-1]:
                return "left closed"
            opened.append((name, picked))
            return f"{name}: {picked}"

        return provider, opened

    return valves


@pytest.mark.requirement("RAP-004", "RAP-071", "RAP-240", "RAP-241", "RAP-246", "RAP-252")
async def test_a_choice_is_shown_to_the_user_and_the_call_continues_with_it(valves, serving):
    provider, opened = valves()
    async with serving(provider) as client:
        assert await client.invoke("open_valve", {"name": "main"}, call_id="m-1") == 200
        [question] = await client.inbox.wait(1, "user_choice")
        assert opened == []
        url = question.pop("response_url")
        assert question == {
            "type": "user_choice",
            "group_id": "thread-1",
            "id": "tc-1",
            "call_id": "m-1",
            "prompt": "Open main?",
            "choices": LABELS,
            "default": 2,
        }
        assert url.startswith(client.base)
        assert await client.post(url, {"id": "tc-1", "selected": 1}) == 200
        result = await client.result()
        assert (result["text"], result["call_id"]) == ("main: Open for 2 minutes", "m-1")
    assert opened == [("main", "Open for 2 minutes")]


@pytest.mark.parametrize(("default", "index"), [(0, 0), (-2, 1), ("Open it", 0), ("Leave closed", 2)])
async def test_the_default_is_what_its_author_says(valves, serving, default, index):
    provider, _ = valves(default=default)
    async with serving(provider) as client:
        await client.invoke("open_valve", {"name": "main"})
        [question] = await client.inbox.wait(1, "user_choice")
        assert question["default"] == index


@pytest.mark.requirement("RAP-247")
@pytest.mark.parametrize("selected", [3, 99, -1, True, "1", 1.5, None, [0]])
async def test_a_selection_that_is_none_ends_in_an_error_and_nothing_is_done(valves, serving, selected):
    provider, opened = valves()
    async with serving(provider) as client:
        await client.invoke("open_valve", {"name": "main"})
        [question] = await client.inbox.wait(1, "user_choice")
        assert await client.post(question["response_url"], {"id": "tc-1", "selected": selected}) == 200
        assert (await client.result())["text"].startswith("Error: the selection is none of the choices")
    assert opened == []


async def test_what_is_no_selection_at_all_leaves_the_question_open(valves, serving):
    provider, _ = valves()
    async with serving(provider) as client:
        await client.invoke("open_valve", {"name": "main"})
        [question] = await client.inbox.wait(1, "user_choice")
        refused = [b"", b"[]", {"selected": 0}, {"id": "tc-2", "selected": 0}, {"id": 5, "selected": 0}]
        assert [await client.post(question["response_url"], body) for body in refused] == [400] * 5
        assert await client.post(question["response_url"], {"id": "tc-1", "selected": 0}) == 200
        assert (await client.result())["text"] == "main: Open it"


async def test_a_second_or_guessed_selection_changes_and_reveals_nothing(valves, serving):
    provider, opened = valves()
    async with serving(provider) as client:
        await client.invoke("open_valve", {"name": "main"})
        [question] = await client.inbox.wait(1, "user_choice")
        guess = question["response_url"][:-4] + "AAAA"
        assert await client.post(guess, {"id": "tc-1", "selected": 0}) == 200
        assert client.inbox.messages == [question]
        assert await client.post(question["response_url"], {"id": "tc-1", "selected": 2}) == 200
        await client.result()
        assert await client.post(question["response_url"], {"id": "tc-1", "selected": 0}) == 200
    assert opened == []
    assert len(client.inbox.messages) == 2


@pytest.mark.requirement("RAP-248")
async def test_an_unanswered_question_ends_in_an_error(valves, serving):
    provider, opened = valves(limit_s=0.1)
    async with serving(provider) as client:
        await client.invoke("open_valve", {"name": "main"})
        assert (await client.result())["text"].startswith("Error: the user did not choose in time")
    assert opened == []


@pytest.mark.requirement("RAP-418")
async def test_a_cancellation_ends_the_wait(valves, serving):
    provider, opened = valves()
    async with serving(provider) as client:
        await client.invoke("open_valve", {"name": "main"})
        [question] = await client.inbox.wait(1, "user_choice")
        assert await client.post("/cancel_tool_call", {"thread_id": "thread-1", "tool_call_id": "tc-1"}) == 200
        assert (await client.result())["text"].startswith("Error: the call was canceled")
        assert await client.post(question["response_url"], {"id": "tc-1", "selected": 0}) == 200
    assert opened == []


async def test_waiting_takes_no_turn_and_no_time_from_the_tools(make, serving):
    provider = make(limits=Limits(max_running=1))

    @provider.tool(timeout_s=5)
    async def ask(call: RapCall) -> str:
        """Ask."""
        return await call.choose("Go on?", ["yes", "no"])

    @provider.tool
    async def ring() -> str:
        """Ring."""
        return "rung"

    async with serving(provider) as client:
        await client.invoke("ask", id="a")
        await client.inbox.wait(1, "user_choice")
        await client.invoke("ring", id="b")
        assert (await client.result())["text"] == "rung"


@pytest.mark.requirement("RAP-061")
async def test_an_open_question_outlives_its_server(valves, serving):
    provider, _ = valves()
    async with serving(provider) as client:
        await client.invoke("open_valve", {"name": "main"})
        [question] = await client.inbox.wait(1, "user_choice")
        inbox = client.inbox
    path = question["response_url"].removeprefix(client.base)
    provider, opened = valves()
    async with serving(provider, inbox) as client:
        assert await client.post(path, {"id": "tc-1", "selected": 0}) == 200
        assert (await client.result())["text"] == "main: Open it"
    assert opened == [("main", "Open it")]
    assert [each["type"] for each in inbox.messages] == ["user_choice", "tool_result"]


async def test_answers_so_far_are_remembered_and_no_question_is_asked_twice(make, serving):
    def asking_twice():
        provider = make()

        @provider.tool
        async def ask(call: RapCall) -> str:
            """Ask twice."""
            first = await call.choose("First?", ["a", "b"])
            return first + await call.choose("Second?", ["c", "d"])

        return provider

    async with serving(asking_twice()) as client:
        await client.invoke("ask")
        [first] = await client.inbox.wait(1, "user_choice")
        await client.post(first["response_url"], {"id": "tc-1", "selected": 1})
        [_, second] = await client.inbox.wait(2, "user_choice")
        inbox = client.inbox
    path = second["response_url"].removeprefix(client.base)
    async with serving(asking_twice(), inbox) as client:
        await client.post(path, {"id": "tc-1", "selected": 0})
        assert (await client.result())["text"] == "bc"
    assert [each["type"] for each in inbox.messages] == ["user_choice", "user_choice", "tool_result"]


async def test_an_answer_that_came_before_its_tool_was_back_is_not_lost(valves, serving):
    provider, _ = valves()
    async with serving(provider) as client:
        await client.invoke("open_valve", {"name": "main"})
        [question] = await client.inbox.wait(1, "user_choice")
        posted = client.post(question["response_url"], {"id": "tc-1", "selected": 0})
        assert await asyncio.gather(posted, client.post("/nowhere", {})) == [200, 404]
        assert (await client.result())["text"] == "main: Open it"


@pytest.mark.requirement("RAP-251")
@pytest.mark.parametrize("labels", [[], [""], ["  ", "no"], ["yes", "yes"], ["y\u202ees", "no"], ["a\nb", "no"]])
async def test_indistinguishable_labels_are_rejected(make, serving, labels):
    provider = make()

    @provider.tool
    async def ask(call: RapCall) -> str:
        """Ask."""
        return await call.choose("Well?", labels)

    async with serving(provider) as client:
        await client.invoke("ask")
        assert (await client.result())["text"].startswith("Error: the tool failed")
        assert [each["type"] for each in client.inbox.messages] == ["tool_result"]


@pytest.mark.requirement("RAP-249", "RAP-053")
async def test_a_tool_can_remember_a_decision_for_a_thread_and_those_below_it(make, serving):
    provider, granted = make(), set()

    @provider.tool
    async def open_valve(call: RapCall) -> str:
        """Open the valve."""
        if not granted & {call.thread_id, *call.ancestors}:
            picked = await call.choose("Open valves in this conversation?", ["Open them", "Leave them"])
            granted.update({call.thread_id} if picked == "Open them" else ())
        return "open"

    async with serving(provider) as client:
        await client.invoke("open_valve", group_id="plot-9")
        [asked] = await client.inbox.wait(1, "user_choice")
        await client.post(asked["response_url"], {"id": asked["id"], "selected": 0})
        await client.result()
        await client.invoke("open_valve", group_id="plot-9")
        await client.invoke("open_valve", group_id="plot-9/sub", thread_ancestors=["plot-9"], id="tc-2")
        await client.result(2)
        await client.invoke("open_valve", group_id="plot-10", id="tc-3")
        questions = await client.inbox.wait(2, "user_choice")
    assert [each["group_id"] for each in questions] == ["plot-9", "plot-10"]


@pytest.mark.parametrize("status", [400, 409, 413])
async def test_a_question_that_its_runtime_does_not_take_ends_the_wait_at_once(valves, serving, inbox, status):
    provider, opened = valves()
    inbox.statuses = [status]
    async with serving(provider, inbox) as client:
        await client.invoke("open_valve", {"name": "main"})
        assert (await client.result())["text"].startswith("Error: the runtime rejected the question")
    assert opened == []


async def test_the_refusal_of_a_question_is_known_after_a_restart(make, serving, inbox):
    provider, times, errors = make(), [], []

    @provider.tool(destructive=True)
    async def open_valve(call: RapCall) -> str:
        """Open a valve, after asking."""
        times.append(call.id)
        try:
            await call.choose("Open it?", LABELS)
        except Exception as error:
            errors.append(str(error))
            if len(times) == 1:
                await asyncio.Event().wait()
            raise
        return "open"

    inbox.statuses = [400]
    async with serving(provider, inbox) as client:
        await client.invoke("open_valve")
        while not errors:
            await asyncio.sleep(0.01)
    async with serving(provider, inbox) as client:
        assert (await client.result())["text"].startswith("Error: ")
    assert "user_choice" not in {each["type"] for each in inbox.messages}


@pytest.mark.parametrize(
    ("prompt", "labels"), [("Open it?", [str(each) for each in range(101)]), ("?" * 10_001, LABELS)]
)
async def test_a_question_that_no_runtime_takes_is_not_sent(make, serving, prompt, labels):
    provider, errors = make(), []

    @provider.tool
    async def open_valve(call: RapCall) -> str:
        """Ask too much."""
        try:
            return await call.choose(prompt, labels)
        except ValueError as error:
            errors.append(str(error))
            raise

    async with serving(provider) as client:
        await client.invoke("open_valve")
        assert (await client.result())["text"].startswith("Error: ")
        assert [each["type"] for each in client.inbox.messages] == ["tool_result"]
    assert "ask for less" in errors[0]
