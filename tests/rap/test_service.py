"""The running provider: calls, cancellation, fairness, faults of the disk, and migration."""

import asyncio
import sqlite3
from contextlib import closing

import pytest

from agenttool.adapters.rap.callback_urls import LIFETIME_NS
from agenttool.errors import ConfigError
from agenttool.rap import Bearer, Declined, Limits, RapCall, RateLimit, service, store

CANCEL = {"thread_id": "thread-1", "tool_call_id": "tc-1"}


def working(make, **options):
    """Make a provider whose tools wait at a gate, and the list of what they did."""
    provider, gate, done = make(), asyncio.Event(), []

    @provider.tool(**options)
    async def work(number: int) -> str:
        """Work."""
        done.append(("began", number))
        await gate.wait()
        done.append(("ended", number))
        return f"worked {number}"

    return provider, gate, done


@pytest.mark.requirement("RAP-142", "RAP-286", "RAP-287", "RAP-288", "RAP-051", "RAP-291")
async def test_a_running_call_is_stopped_and_still_ends_in_a_result(make, serving):
    provider, _, done = working(make)
    async with serving(provider) as client:
        await client.invoke("work", {"number": 1})
        while not done:
            await asyncio.sleep(0)
        replies = [
            await client.http_client.post(f"{client.base}/cancel_tool_call", body)
            for body in (b'{"thread_id":"thread-1","tool_call_id":"tc-1"}', b'{"thread_id":"x","tool_call_id":"../y"}')
        ]
        assert (await client.result())["text"].startswith("Error: the call was canceled on request")
        assert await client.post("/cancel_tool_call", CANCEL) == 200
    assert [(reply.status, reply.body) for reply in replies] == [(200, b"")] * 2
    assert done == [("began", 1)]


async def test_a_cancellation_right_behind_its_call_finds_it(make, serving):
    provider, gate, done = working(make, idempotent=True)
    async with serving(provider) as client:
        both = await asyncio.gather(client.invoke("work", {"number": 1}), client.post("/cancel_tool_call", CANCEL))
        assert both == [200, 200]
        await client.post("/cancel_tool_call", CANCEL)
        assert (await client.result())["text"].startswith("Error: the call was canceled")
        gate.set()
    assert ("ended", 1) not in done


@pytest.mark.requirement("RAP-292")
async def test_a_cancellation_after_the_end_changes_nothing(make, serving):
    provider, gate, _ = working(make)
    gate.set()
    async with serving(provider) as client:
        await client.invoke("work", {"number": 1})
        await client.result()
        assert await client.post("/cancel_tool_call", CANCEL) == 200
        assert await client.invoke("work", {"number": 1}) == 200
    assert [each["text"] for each in client.inbox.messages] == ["worked 1"]


@pytest.mark.requirement("RAP-403")
async def test_a_cancellation_stops_only_the_call_of_its_own_thread(make, serving):
    provider, gate, done = working(make)
    async with serving(provider) as client:
        await client.invoke("work", {"number": 1})
        await client.invoke("work", {"number": 2}, group_id="thread-2")
        while len(done) < 2:
            await asyncio.sleep(0)
        assert await client.post("/cancel_tool_call", CANCEL) == 200
        assert (await client.result())["group_id"] == "thread-1"
        gate.set()
        assert (await client.result(2))["text"] == "worked 2"
    assert sorted(done) == [("began", 1), ("began", 2), ("ended", 2)]


@pytest.mark.requirement("RAP-142", "RAP-303", "RAP-304", "RAP-305", "RAP-308")
async def test_a_closure_is_answered_at_once_and_cleaned_up_behind(make, serving, caplog):
    provider, gate, _ = working(make)
    closed = asyncio.Queue()

    @provider.on_close
    async def clean_up(thread_id):
        closed.put_nowait(thread_id)
        if thread_id == "bad":
            raise OSError("no space on /srv/disk")

    async with serving(provider) as client:
        await client.invoke("work", {"number": 1})
        for thread in ("thread-1", "bad", "../../etc"):
            reply = await client.http_client.post(f"{client.base}/close_thread", f'{{"thread_id":"{thread}"}}'.encode())
            assert (reply.status, reply.body) == (200, b"")
        assert [await closed.get() for _ in range(3)] == ["thread-1", "bad", "../../etc"]
        gate.set()
        assert (await client.result())["text"] == "worked 1"  # work that was under way comes to its end
    assert "OSError" in caplog.text


@pytest.mark.requirement("RAP-308")
async def test_the_answer_to_a_closure_is_the_same_for_every_thread_and_beyond_the_rate(make, serving):
    auth = Bearer({"first-runtime-token": "first", "other-runtime-token": "other"})
    provider = make(auth=auth, limits=Limits(notices=RateLimit(per_second=0.001, burst=2)))
    closed = []

    @provider.tool
    async def work() -> str:
        """Work."""
        return "worked"

    @provider.on_close
    async def clean_up(thread_id):
        closed.append(thread_id)

    async def close(client, thread, token):
        body = f'{{"thread_id":"{thread}"}}'.encode()
        headers = {"Authorization": f"Bearer {token}"}
        reply = await client.http_client.post(f"{client.base}/close_thread", body, headers)
        return reply.status, reply.body

    async with serving(provider) as client:
        client.headers = {"Authorization": "Bearer first-runtime-token"}
        await client.invoke("work")
        await client.result()
        answers = [
            await close(client, "thread-1", "other-runtime-token"),
            await close(client, "unknown", "other-runtime-token"),
            await close(client, "thread-2", "other-runtime-token"),
            await close(client, "thread-1", "first-runtime-token"),
        ]
        while "thread-1" not in closed:
            await asyncio.sleep(0)
    assert answers == [(200, b"")] * 4
    assert sorted(closed) == ["thread-1", "unknown"]


@pytest.mark.requirement("RAP-320", "RAP-323", "RAP-324", "RAP-326", "RAP-329")
async def test_a_migration_is_answered_when_it_is_done_or_with_why_not(make, serving, free_port):
    provider, _, _ = working(make)
    moved, may_end = [], asyncio.Event()

    @provider.on_migrate
    async def move(session_id, destination_url):
        await may_end.wait()
        if session_id == "declined":
            raise Declined("the session still has open files; close them")
        if session_id == "broken":
            raise KeyError("/srv/secret")
        moved.append((session_id, destination_url))

    async with serving(provider) as client:
        manifest = (await client.get("/.well-known/rap-toolset")).body
        assert b'"needsMigration":true' in manifest

        def migrate(session, destination):
            body = f'{{"session_id":"{session}","destination_url":"{destination}"}}'.encode()
            return client.http_client.post(f"{client.base}/migrate", body)

        nobody = await migrate("plot-9", f"http://127.0.0.1:{free_port()}")
        going = asyncio.ensure_future(migrate("plot-9", client.base))
        await asyncio.sleep(0.05)
        assert not going.done()
        may_end.set()
        replies = [await going, await migrate("declined", client.base), await migrate("broken", client.base)]
    assert nobody.status == 502
    assert [reply.status for reply in replies] == [200, 502, 502]
    assert b"open files" in replies[1].body
    assert b"secret" not in replies[2].body
    assert moved == [("plot-9", client.base)]


@pytest.mark.requirement("RAP-327")
async def test_a_destination_is_shown_no_secret(make, serving):
    token = "a-token-of-sixteen"
    provider = make(auth=Bearer(token), sign=Bearer(token), sign_to=["https://runtime.example"])

    @provider.tool
    async def work() -> str:
        """Work."""
        return "done"

    @provider.on_migrate
    async def move(session_id, destination_url):
        """Move nothing."""

    async with serving(provider) as client:
        client.headers = {"Authorization": f"Bearer {token}"}
        client.inbox.statuses = [500]
        destination = {"session_id": "s", "destination_url": client.inbox.url}
        assert await client.post("/migrate", destination) == 502
        [asked] = client.inbox.headers
    assert token not in str(asked)


async def test_a_destination_that_does_not_answer_gets_nothing(make, serving):
    provider, _, _ = working(make)
    moved = []

    @provider.on_migrate
    async def move(session_id, destination_url):
        moved.append(session_id)

    async with serving(provider) as client:
        assert await client.post("/migrate", {"session_id": "s", "destination_url": "http://127.0.0.1:1"}) == 502
    assert moved == []


@pytest.mark.requirement("RAP-061", "RAP-051")
async def test_a_call_that_may_have_acted_is_not_run_again_and_says_so(make, serving):
    provider, _, done = working(make)
    async with serving(provider) as client:
        await client.invoke("work", {"number": 1})
        while not done:
            await asyncio.sleep(0)
        inbox = client.inbox
    provider, _, again = working(make)
    async with serving(provider, inbox) as client:
        result = await client.result()
    assert result["text"].startswith("Error: the tool's server was restarted while the tool ran")
    assert again == []


@pytest.mark.requirement("RAP-061")
@pytest.mark.parametrize("options", [{"idempotent": True}, {"read_only": True}])
async def test_a_call_that_may_run_twice_is_run_again(make, serving, options):
    provider, _, done = working(make, **options)
    async with serving(provider) as client:
        await client.invoke("work", {"number": 1})
        while not done:
            await asyncio.sleep(0)
        inbox = client.inbox
    provider, gate, again = working(make, **options)
    gate.set()
    async with serving(provider, inbox) as client:
        assert (await client.result())["text"] == "worked 1"
    assert again == [("began", 1), ("ended", 1)]


async def test_two_providers_do_not_share_a_store(make, serving):
    provider, _, _ = working(make)
    other, _, _ = working(make)
    async with serving(provider):
        with pytest.raises(ConfigError, match="another provider uses"):
            async with other.app.router.lifespan_context(other.app):
                pass


async def test_what_is_no_store_of_a_provider_is_left_alone(make, tmp_path):
    provider, _, _ = working(make)
    (tmp_path / "calls.db").write_bytes(b"a letter to grandmother, and nothing else, really nothing at all" * 20)
    with pytest.raises(ConfigError, match=r"calls\.db"):
        async with provider.app.router.lifespan_context(provider.app):
            pass
    assert (tmp_path / "calls.db").read_bytes().startswith(b"a letter")


async def test_a_function_in_a_thread_may_report_and_knows_its_key(make, serving):
    provider = make()

    @provider.tool
    def work(call: RapCall) -> str:
        """Work in a thread."""
        call.report("working", percent=10)
        return call.idempotency_key

    async with serving(provider) as client:
        await client.invoke("work")
        assert len((await client.result())["text"]) == 64
        views = await client.inbox.wait(2, "view_update")
    assert {each["view_type"] for each in views} == {"progress/tc-1"}


@pytest.fixture
def disk(monkeypatch):
    """Let the disk of a provider be full, and have room again."""

    class Disk(store.ProviderStore):
        async def fill(self, *, is_full):
            pages = 1 if is_full else 1_000_000
            await self.run(lambda connection: connection.execute(f"PRAGMA max_page_count = {pages}"))

    made = []
    monkeypatch.setattr(store, "FIRST_RETRY_S", 0.01)
    monkeypatch.setattr(service, "ProviderStore", lambda path: made.append(Disk(path)) or made[-1])
    return made


@pytest.mark.requirement("RAP-051", "RAP-286", "RAP-303")
async def test_a_result_that_a_full_disk_rejected_is_stored_and_delivered_later(make, serving, disk, caplog):
    provider, gate, done = make(), asyncio.Event(), []

    @provider.tool
    async def work() -> str:
        """Work."""
        done.append("began")
        await gate.wait()
        return "x" * 200_000

    async with serving(provider) as client:
        await client.invoke("work")
        while not done:
            await asyncio.sleep(0)
        await disk[0].fill(is_full=True)
        gate.set()
        while "cannot be written" not in caplog.text:
            await asyncio.sleep(0.01)
        assert await client.invoke("work", id="tc-2", arguments={"pad": "x" * 100_000}) == 503
        assert await client.post("/cancel_tool_call", {"thread_id": "thread-1", "tool_call_id": "tc-9"}) == 200
        assert await client.post("/close_thread", {"thread_id": "other"}) == 200
        assert client.inbox.messages == []
        await disk[0].fill(is_full=False)
        assert len((await client.result())["text"]) == 200_000
    assert done == ["began"]


@pytest.mark.requirement("RAP-307")
@pytest.mark.parametrize("place", ["in it", "below it"])
async def test_a_caller_cannot_close_or_move_a_thread_of_another(make, serving, place):
    provider = make(auth=Bearer({"token-of-runtime-a": "a", "token-of-runtime-b": "b"}))
    done = []

    @provider.tool
    async def work() -> str:
        """Work."""
        return "worked"

    @provider.on_close
    async def clean_up(thread_id):
        done.append(thread_id)

    @provider.on_migrate
    async def move(session_id, destination_url):
        done.append((session_id, destination_url))

    owner, stranger = ({"Authorization": f"Bearer token-of-runtime-{name}"} for name in "ab")
    async with serving(provider) as client:
        child = {"group_id": "thread-1/a", "thread_ancestors": ["thread-1"]} if place == "below it" else {}
        client.headers = owner
        await client.invoke("work", id="tc-0", **child)
        client.headers = stranger
        await client.invoke("work", id="tc-1")
        moving = {"session_id": "thread-1", "destination_url": client.base}
        assert await client.post("/close_thread", {"thread_id": "thread-1"}) == 200
        assert await client.post("/migrate", moving) == 502
        await client.result(2)
        assert done == []
        client.headers = owner
        assert await client.post("/close_thread", {"thread_id": "thread-1"}) == 200
        await client.result(2)
    assert done == ["thread-1"]


async def test_a_call_with_too_many_thread_ancestors_gets_an_error(make, serving):
    provider, _, _ = working(make)
    async with serving(provider) as client:
        assert await client.invoke("work", thread_ancestors=[f"t{each}" for each in range(101)]) == 200
        assert "thread_ancestors" in (await client.result())["text"]


@pytest.mark.requirement("RAP-402")
def test_a_call_is_remembered_for_longer_than_our_runtime_may_repeat_it():
    assert Limits().keep_s * 1e9 > LIFETIME_NS


async def test_whose_a_thread_is_is_forgotten_with_its_calls(make, serving, tmp_path, monkeypatch):
    monkeypatch.setattr(service, "CLEANUP_INTERVAL_S", 0.01)
    provider = make(limits=Limits(keep_s=0))

    @provider.tool
    async def work() -> str:
        """Work."""
        return "worked"

    async with serving(provider) as client:
        await client.invoke("work", group_id="a/b", thread_ancestors=["a"])
        await client.result()
        with closing(sqlite3.connect(tmp_path / "calls.db")) as stored:
            async with asyncio.timeout(60):
                while stored.execute("SELECT count(*) FROM calls").fetchone() != (0,):
                    await asyncio.sleep(0.01)
            assert stored.execute("SELECT count(*) FROM ancestors").fetchone() == (0,)


@pytest.mark.requirement("RAP-328")
async def test_what_was_moved_may_stay_until_the_thread_closes(make, serving):
    provider, here, there = make(), {"plot-9": ["seeds"]}, {}

    @provider.tool
    async def seeds(group: str) -> str:
        """Tell the seeds."""
        return str(here.get(group))

    @provider.on_migrate
    async def move(session_id, destination_url):
        there[session_id] = list(here[session_id])  # by whatever way the two have between them

    @provider.on_close
    async def clean_up(thread_id):
        here.pop(thread_id, None)

    async with serving(provider) as client:
        assert await client.post("/migrate", {"session_id": "plot-9", "destination_url": client.base}) == 200
        assert here == there == {"plot-9": ["seeds"]}
        assert await client.post("/close_thread", {"thread_id": "plot-9"}) == 200
    assert (here, there) == ({}, {"plot-9": ["seeds"]})


ADA, BOB = "token-of-runtime-ada", "token-of-runtime-bob"


@pytest.fixture
def slow(make):
    def slow(**limits):
        provider, ran = make(auth=Bearer({ADA: "ada", BOB: "bob"}), limits=Limits(**limits)), []

        @provider.tool(read_only=True)
        async def work(name: str) -> str:
            """Work until somebody stops it, unless there is nothing to do."""
            ran.append(name)
            if name != "quick":
                await asyncio.Event().wait()
            return name

        return provider, ran

    return slow


async def test_slow_functions_of_one_caller_leave_room_for_another(slow, serving):
    provider, ran = slow(max_running=3, max_running_per_caller=2)
    async with serving(provider) as client:
        client.headers = {"Authorization": f"Bearer {ADA}"}
        for each in range(5):
            assert await client.invoke("work", {"name": f"slow {each}"}, id=f"slow-{each}") == 200
        client.headers = {"Authorization": f"Bearer {BOB}"}
        await client.invoke("work", {"name": "quick"}, id="quick")
        assert (await client.result())["text"] == "quick"
    assert ran == ["slow 0", "slow 1", "quick"]


async def test_a_call_that_asks_is_stopped_also_while_all_places_are_taken(make, serving):
    provider = make(limits=Limits(max_running=1))

    @provider.tool
    async def ask(call: RapCall) -> str:
        """Ask."""
        return await call.choose("Go on?", ["yes", "no"])

    @provider.tool
    async def work() -> str:
        """Work for ever."""
        await asyncio.Event().wait()
        return "done"

    async with serving(provider) as client:
        await client.invoke("ask", id="asking")
        await client.inbox.wait(1, "user_choice")
        await client.invoke("work", id="working")
        await client.post("/cancel_tool_call", {"thread_id": "thread-1", "tool_call_id": "asking"})
        assert (await client.result())["text"].startswith("Error: the call was canceled")


@pytest.mark.parametrize("name", ["max_running", "max_running_per_caller"])
def test_limits_by_which_nothing_runs_are_refused(name):
    with pytest.raises(ConfigError, match=f"{name} must be more than 0"):
        Limits(**{name: 0})
