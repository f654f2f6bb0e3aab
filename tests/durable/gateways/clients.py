"""Clients of the gateways: they make, follow and cancel calls and answer approvals, and note every response."""

import asyncio
import json
import time
from dataclasses import dataclass, field

import httpcore

from agenttool.records.status import TERMINAL_STATUSES

TOOLS = [
    "pay",
    "pay",
    "nap",
    "nap",
    "put",
    "put",
    "look",
    "look",
    "report",
    "send",
    "send",
    "twice",
    "errand",
    "courier",
]
WAITS = [None, 0, 0, 0, 0.02, 0.3, 1.5]
NO_RESPONSE = (httpcore.NetworkError, httpcore.ProtocolError, httpcore.TimeoutException)
ENDED = {each.value for each in TERMINAL_STATUSES}
TIMEOUTS = {"connect": 5, "read": 15, "write": 5, "pool": 15}


@dataclass
class Request:
    """A request that makes calls, identified by their numbers, and what came of it."""

    numbers: list[int]
    tools: list[str]
    key: str | None = None
    ids: list[set[str]] = field(default_factory=list)
    """The ids that were returned for each call; two if they differ."""
    refusals: list[tuple[int, str]] = field(default_factory=list)
    """The status and the detail of each response without a call."""
    is_answered: bool = False


@dataclass(frozen=True)
class Seen:
    """The state of a call in a response."""

    at_ns: int
    where: str
    invocation_id: str
    status: str
    result: dict | None


class Clients:
    """The clients of one round."""

    def __init__(self, gateways, approver, rng):
        self.gateways, self.approver, self.rng = gateways, approver, rng
        self.requests, self.seen, self.faults = [], [], []
        self.answers = []
        self.known = []
        self.unread = {}
        """Why a call could not be read, at the last attempt."""
        self.is_over = False
        self._number = 0
        self._pool = httpcore.AsyncConnectionPool(max_connections=100)

    async def close(self):
        await self._pool.aclose()

    async def ask(self, method, path, body=None, headers=None, url=None):
        """Send a request to a gateway; return the status and the body, or none if there was no response."""
        while url is None and not (serving := [each.url for each in self.gateways if each.url]):
            await asyncio.sleep(0.02)
        url = url or self.rng.choice(serving)
        headers = {**(headers or {}), **({"content-type": "application/json"} if body is not None else {})}
        content = None if body is None else json.dumps(body).encode()
        try:
            reply = await self._pool.request(
                method, url + path, headers=headers, content=content, extensions={"timeout": TIMEOUTS}
            )
        except NO_RESPONSE:
            return None
        found = json.loads(reply.content) if reply.content else {}
        if reply.status >= 500 and reply.status != 503:
            self.faults.append(f"{method} {path} answered {reply.status}: {found}")
        return reply.status, found

    def note(self, where, item):
        """Note the state of a call; it must agree with itself."""
        result = item["result"]
        if result is not None:
            result.pop("record_type", None)
        seen = Seen(time.time_ns(), where, item["invocation_id"], item["status"], result)
        self.seen.append(seen)
        if (item["result"] is not None) != (item["status"] in ENDED):
            self.faults.append(f"{where} returned the status {item['status']} with the result {item['result']}")
        if item.get("is_open", item["result"] is None) != (item["result"] is None):
            self.faults.append(f"{where} returned is_open {item['is_open']} with the result {item['result']}")
        if seen.invocation_id not in self.known:
            self.known.append(seen.invocation_id)

    def _call(self, tool=None):
        self._number += 1
        return {"tool": f"shop.{tool or self.rng.choice(TOOLS)}", "arguments": {"number": self._number}}

    async def make_calls(self):
        """Make one call after another."""
        while not self.is_over:
            if self.rng.random() < 0.2:
                await self._post_batch()
            else:
                await self._post_call()
            await asyncio.sleep(self.rng.random() * 0.05)

    async def _post_call(self):
        call = self._call()
        number = call["arguments"]["number"]
        key = f"key-{number}" if self.rng.random() < 0.6 else None
        made = Request([number], [call["tool"]], key, [set()])
        self.requests.append(made)
        call["thread"] = self.rng.choice("abc")
        for _ in range(100):
            wait = self.rng.choice(WAITS)
            path = "/v1/calls" if wait is None else f"/v1/calls?wait={wait}"
            reply = await self.ask("POST", path, call, None if key is None else {"idempotency-key": key})
            if reply is not None:
                self._noted(made, f"POST {path} {call['tool']} {number} key={key}", reply, [reply[1]])
            if key is None or (made.is_answered and self.rng.random() < 0.8):
                return
            await asyncio.sleep(self.rng.random() * 0.1)

    async def _post_batch(self):
        calls = [self._call() for _ in range(self.rng.randint(2, 4))]
        if self.rng.random() < 0.5:
            calls[-1]["depends_on"] = [self.rng.randrange(len(calls) - 1)]
        numbers = [each["arguments"]["number"] for each in calls]
        made = Request(numbers, [each["tool"] for each in calls], None, [set() for _ in calls])
        self.requests.append(made)
        wait = self.rng.choice(WAITS)
        path = "/v1/batches" if wait is None else f"/v1/batches?wait={wait}"
        reply = await self.ask("POST", path, {"calls": calls, "thread": self.rng.choice("abc")})
        if reply is not None:
            self._noted(made, f"POST {path} {numbers}", reply, reply[1].get("items", ()))

    def _noted(self, made, where, reply, items):
        status, found = reply
        if status not in (200, 202):
            made.refusals.append((status, f"{where}: {found.get('detail', found)}"))
            return
        made.is_answered = True
        for ids, item in zip(made.ids, items, strict=True):
            ids.add(item["invocation_id"])
            self.note(where, item)

    async def follow_calls(self):
        """Read calls through any gateway, and cancel a few."""
        while not self.is_over:
            await asyncio.sleep(self.rng.random() * 0.05)
            if not self.known:
                continue
            invocation_id = self.rng.choice(self.known[-40:])
            chance = self.rng.random()
            if chance < 0.15:
                await self.ask("POST", f"/v1/calls/{invocation_id}/cancel", {}, self.approver)
            elif chance < 0.2:
                await self.ask("GET", "/v1/calls?limit=20", headers=self.approver)
            else:
                await self.read_call(invocation_id, self.rng.choice([0, 0, 0.5]))

    async def read_call(self, invocation_id, wait=0, url=None):
        path = f"/v1/calls/{invocation_id}?wait={wait}"
        reply = await self.ask("GET", path, headers=self.approver, url=url)
        if reply is None:
            self.unread[invocation_id] = "no response"
            return None
        status, found = reply
        if status == 404:
            self.faults.append(f"GET {path} answered 404 for an acknowledged call")
        if status != 200:
            self.unread[invocation_id] = f"{status} {found.get('detail', found)}"
            return None
        self.note(f"GET {path}", found)
        return found

    async def open_calls(self):
        """Return the calls that have not ended; none if no gateway could say."""
        reply = await self.ask("GET", "/v1/calls?open=true&limit=100", headers=self.approver)
        if reply is None or reply[0] != 200:
            return None
        return [
            f"{each['invocation_id']} {each['tool']} {each['status']}" for each in reply[1]["items"] if each["is_open"]
        ]

    async def answer_approvals(self):
        while not self.is_over:
            await self.answer_one()
            await asyncio.sleep(self.rng.random() * 0.1)

    async def answer_one(self):
        """Answer an approval through any gateway; return whether one was open."""
        reply = await self.ask("GET", "/v1/approvals?limit=20", headers=self.approver)
        if reply is None or reply[0] != 200 or not reply[1]["items"]:
            return False
        question = self.rng.choice(reply[1]["items"])
        answer = self.rng.choice(["allow", "allow", "deny"])
        body = {"answer": answer, "shown_digest": question["shown_digest"]}
        reply = await self.ask("POST", f"/v1/approvals/{question['approval_id']}", body, self.approver)
        if reply is not None and reply[0] == 200:
            self.answers.append((question["approval_id"], question["invocation_id"], answer))
        return True
