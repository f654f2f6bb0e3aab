"""A provider is killed at any time, for real: nothing is lost, and nothing happens twice."""

import asyncio
import contextlib
import json
import os
import random
from collections import Counter, defaultdict

import pytest

from agenttool.http.client import HttpClient
from agenttool.http.ssrf import SsrfPolicy

EVENTS = 6
ROUNDS = int(os.environ.get("AGENTTOOL_RAP_ROUNDS", "60"))
BOUND_S = 120
KINDS = ("append", "note", "ask", "watch")
ANSWERS = (b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n", b"HTTP/1.1 503 Busy\r\nContent-Length: 0\r\n\r\n", b"")


class Runtime:
    """A runtime that lives: it repeats invocations until they are acknowledged, answers questions, and takes messages.

    It is a poor one to talk to: now and then it takes a message and says that it has not, or cuts the connection.
    """

    def __init__(self, base, chance):
        self.base = base
        self.chance = chance
        self.http_client = HttpClient(SsrfPolicy.parse(["127.0.0.1"]), timeout_s=3)
        self.taken = {}
        self.results = defaultdict(list)
        self.asked = []
        self.url = ""

    async def serve(self, reader, writer):
        """Take messages from one connection."""
        with contextlib.closing(writer), contextlib.suppress(asyncio.IncompleteReadError, ConnectionError):
            while True:
                head = (await reader.readuntil(b"\r\n\r\n")).decode().lower()
                fields = dict(line.split(": ", 1) for line in head.split("\r\n")[1:] if line)
                message = json.loads(await reader.readexactly(int(fields["content-length"])))
                self.take(fields["idempotency-key"], message)
                answer = self.chance.choices(ANSWERS, (80, 10, 10))[0]
                writer.write(answer)
                await writer.drain()
                if not answer:
                    break

    def take(self, key, message):
        """Take a message in, once per key."""
        assert self.taken.setdefault(key, message) == message
        if message["type"] == "user_choice" and message not in self.asked:
            self.asked.append(message)

    def of(self, kind):
        """Give the messages of one kind, each once, in the order they came."""
        return [message for message in self.taken.values() if message["type"] == kind]

    async def invoke(self, kind, number):
        """Ask for a call until it is acknowledged."""
        invocation = {"operation": kind, "arguments": {"number": number}, "id": f"{kind}-{number}", "group_id": "g"}
        body = json.dumps({**invocation, "callback_url": self.url}).encode()
        while not (await self.http_client.post(f"{self.base}/invoke", body)).is_accepted:
            await asyncio.sleep(0.02)

    async def meet(self):
        """Wait until the provider is there."""
        while not (await self.http_client.get(f"{self.base}/.well-known/rap-toolset")).is_accepted:
            await asyncio.sleep(0.005)

    async def answer(self):
        """Answer every question, as long as there are some."""
        while True:
            for question in tuple(self.asked):
                body = json.dumps({"id": question["id"], "selected": 0}).encode()
                if (await self.http_client.post(question["response_url"], body)).is_accepted:
                    self.asked.remove(question)
            await asyncio.sleep(0.02)


async def killed(folder, seed, rounds, lives_of, port):
    """Make calls while the provider dies, round after round; give what the runtime took in the end."""
    chance = random.Random(seed)
    runtime = Runtime(f"http://127.0.0.1:{port}", chance)
    calls = [(kind, number) for number in range(3 * rounds) for kind in KINDS]
    async with (
        await asyncio.start_server(runtime.serve, "127.0.0.1", 0) as server,
        lives_of("crashing.py", folder, port) as lives,
        asyncio.TaskGroup() as tasks,
    ):
        runtime.url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/in?k=w8"
        answering = tasks.create_task(runtime.answer())
        asking = []
        for round_ in range(rounds):
            await lives.begin()
            pace = len(calls) // rounds
            asking += [tasks.create_task(runtime.invoke(*call)) for call in calls[round_ * pace : (round_ + 1) * pace]]
            if chance.random() < 0.8:  # else it dies on its way up
                await runtime.meet()
            await asyncio.sleep(chance.uniform(0, 0.2))
            await lives.end()
        await lives.begin()
        await asyncio.gather(*asking)
        while not is_complete(runtime, calls):
            await asyncio.sleep(0.02)
            os.kill(lives.child, 0)  # it must live: no test kills it any more
        answering.cancel()
    await runtime.http_client.close()
    return runtime, calls


def is_complete(runtime, calls):
    ends = {each["tool_call_id"] for each in runtime.of("subscription_event") if each.get("final")}
    results = {each["id"]: each for each in runtime.of("tool_result")}
    return len(results) == len(calls) and ends >= {key for key, each in results.items() if each.get("subscription")}


def check(runtime, calls, effects):
    """Hold what happened to what was promised."""
    results = runtime.of("tool_result")
    reported = {each["id"]: each["text"] for each in results}
    assert Counter(each["id"] for each in results) == Counter(f"{kind}-{number}" for kind, number in calls)
    questions = Counter(each["id"] for each in runtime.of("user_choice"))
    assert all(count == 1 for count in questions.values())
    for kind, number in calls:
        text, happened = reported[f"{kind}-{number}"], effects[f"{kind} {number}"]
        if text.startswith("Error: the tool's server was restarted"):
            assert kind in ("append", "ask")
            assert happened <= 1
        elif kind == "append":
            assert (text, happened) == (f"appended {number}", 1)
        elif kind == "ask":
            assert (text, happened) == (f"do it {number}", 1)
        elif kind == "note":
            assert text == f"noted {number}"
            assert happened >= 1
        else:
            events = [
                each["text"] for each in runtime.of("subscription_event") if each["tool_call_id"] == f"watch-{number}"
            ]
            assert events == [f"{number}:{place}" for place in range(EVENTS)]


def run(folder, seed, rounds, *lives):
    print("seed", seed)

    async def bounded():
        async with asyncio.timeout(BOUND_S + 10 * rounds):
            return await killed(folder, seed, rounds, *lives)

    runtime, calls = asyncio.run(bounded())
    check(runtime, calls, Counter((folder / "effects").read_text().splitlines()))


@pytest.mark.requirement("RAP-061", "RAP-180", "RAP-204", "RAP-402", "RAP-405")
def test_a_provider_that_is_killed_a_few_times_loses_nothing_and_does_nothing_twice(tmp_path, lives_of, free_port):
    run(tmp_path, random.randrange(10**6), 3, lives_of, free_port())


@pytest.mark.soak
def test_a_provider_that_is_killed_many_times_loses_nothing_and_does_nothing_twice(tmp_path, lives_of, free_port):
    run(tmp_path, random.randrange(10**6), ROUNDS, lives_of, free_port())
