"""Calls of tools by MCP clients: each is a governed call, with its approval inside."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import suppress
from dataclasses import dataclass, field
from typing import cast

import mcp_types as types
from mcp.shared.exceptions import MCPError

from agenttool.adapters.mcp.elicitation import ASK_USER, REFUSALS
from agenttool.adapters.mcp.source import McpSource
from agenttool.agent.call_access import CallHandle
from agenttool.codec import json_bytes, list_of, object_of
from agenttool.errors import CallerError, StoreError
from agenttool.mcp.callers import approver_of, is_ended_here, may_approve
from agenttool.mcp.exchange import ClientExchange, is_stateless
from agenttool.mcp.profiles import McpOptions
from agenttool.mcp.results import INVOCATION_KEY, call_result
from agenttool.mcp.state import CallIdentity, WaitingCalls, WaitingClientCall
from agenttool.policy.approvals import Allow, Answer, Deny, Edit, Question, Refused
from agenttool.ports.caller import CALLER
from agenttool.ports.calls import ToolCall
from agenttool.records import (
    ErrorClass,
    InvocationId,
    Json,
    JsonObject,
    Ref,
    ToolResult,
    ToolSurface,
)
from agenttool.runtime import Runtime

POLL_S, MAX_POLL_S = 0.05, 1.0
"""The first and the longest pause between two reads of a waiting call, which another process may answer."""

PAGE_S = 50.0
"""How long a call waits for a decision on the approval page before its result names the page."""

APPROVAL_KEY = "agenttool/approval"
"""The member of `_meta` with the id of the open question."""

_FORM: JsonObject = {
    "type": "object",
    "properties": {
        "decision": {"type": "string", "title": "Decision", "enum": ["deny", "allow"]},
        "message": {"type": "string", "title": "Message to the model", "description": "Optional"},
    },
    "required": ["decision"],
}


class _NotAwaitedError(Exception):
    """The client cannot answer a question, and its request does not wait for another approver."""

    def __init__(self, question: Question) -> None:
        super().__init__(question.approval_id)
        self.question = question


@dataclass(slots=True, eq=False)
class ToolRun:
    """One governed call for a client, from its start to its result.

    Attributes:
        denies_questions: whether a question is denied, because the request cannot wait for an approval.
        waits_for: how a user answers each question that the client cannot answer, by its id; only tasks wait for it.
    """

    runtime: Runtime
    exchange: ClientExchange
    identity: CallIdentity
    waiting: WaitingCalls
    options: McpOptions
    denies_questions: bool = False
    invocation_id: InvocationId | None = None
    waits_for: dict[str, str] = field(default_factory=dict)
    _asked: set[str] = field(default_factory=set)
    """The questions that were asked here."""
    _call: CallHandle | None = None
    """The call, if it was started for this client here."""
    _result: ToolResult | None = None
    _earlier: WaitingClientCall | None = None

    @property
    def result(self) -> ToolResult | None:
        """The result of the call, if it has ended in this process or was waited for."""
        return self._result if self._call is None else self._result or self._call.stored_result

    async def start(
        self, name: str, arguments: JsonObject, surface: ToolSurface | None = None, *, ends_with_process: bool = False
    ) -> InvocationId:
        """Start the call of a tool in a task of the runtime, without waiting for it; return its id.

        Without a surface, the tool is called on the surface of all tools. A call that ends with the process is not
        run again after a restart, because no client can follow it then.
        """
        CALLER.set(self.exchange)
        self._earlier, request_id = self.waiting.find_ended(self.identity), self.exchange.context.request_id
        note = None
        if (earlier := self._earlier) is not None:
            ran = f"was approved and ran until {earlier.ended_at} ({earlier.invocation_id})"
            note = f"the same call of this caller {ran}; allow it only if it must run a second time"
        call = self._call = await self.runtime.calls.start(
            ToolCall(name, arguments, native_call_id=None if request_id is None else str(request_id)),
            surface=surface,
            actor_ref=self.identity.caller,
            ends_with_process=ends_with_process,
            on_idle=self.exchange.wake,
            on_progress=self.exchange.progressed,
            note_for_approver=note,
        )
        self.invocation_id = call.id
        return call.id

    async def read(self, name: str, arguments: JsonObject) -> ToolResult:
        """Run a call for a request other than `tools/call`, such as the read of a resource; return its result.

        Raises:
            MCPError: it waits for an approval; the message names the place to approve it.
        """
        waiting = await self.waiting.take(self.identity, self.exchange)
        outcome = await self._follow(waiting or await self.start(name, arguments, ends_with_process=True))
        if isinstance(outcome, Question):
            raise MCPError(types.INVALID_PARAMS, self._advice(outcome))
        return outcome

    async def resume(self, invocation_id: InvocationId) -> JsonObject:
        """Wait for a call that was started; return its result, or a text about where to approve it.

        A canceled request cancels the call.
        """
        outcome = await self._follow(invocation_id)
        if isinstance(outcome, Question):
            return await self._where_to_answer(outcome)
        return await call_result(outcome, self._fetch, any_structure=is_stateless(self.exchange.context))

    async def _follow(self, invocation_id: InvocationId) -> ToolResult | Question:
        """Wait for a call that was started; return its result, or a question for which the request does not wait."""
        self.invocation_id = invocation_id
        try:
            if self._call is not None:
                await self._call.idle()
            left = None if self.result is not None else await self._settle_questions(invocation_id)
            if left is not None:
                return left
            result = self._result = self.result or await self.runtime.calls.get(invocation_id).result()
            is_refused = result.error is not None and result.error.error_class in (*REFUSALS, ErrorClass.CANCELED)
            await (self.waiting.remove if is_refused else self.waiting.end)(self.identity, invocation_id)
        except asyncio.CancelledError:
            await self.cancel()
            raise
        return result

    async def _settle_questions(self, invocation_id: InvocationId) -> Question | None:
        """Get answers to the questions of a call and its nested calls, several at once, until the call has ended.

        Return a question that the client cannot answer, if the request does not wait for it; otherwise None.
        """
        try:
            async with asyncio.TaskGroup() as group:
                ending = group.create_task(self.runtime.calls.get(invocation_id).result())
                async for question in self._questions(invocation_id, ending):
                    group.create_task(self._settle(question))
        except* _NotAwaitedError as errors:
            left = errors.exceptions[0]
        else:
            return None
        return cast("_NotAwaitedError", left).question

    async def _questions(
        self, invocation_id: InvocationId, ending: asyncio.Task[ToolResult | None]
    ) -> AsyncGenerator[Question]:
        """Yield the open questions of a call and its nested calls that wait for people, until the call has ended."""
        pause_s, approvals = POLL_S, self.runtime.approvals
        while not ending.done():
            found = await approvals.within(invocation_id, self._asked)
            question = next((each for each in found if approvals.is_for_people(each.approval_id)), None)
            if question is not None:
                self._asked.add(question.approval_id)
                pause_s = POLL_S
                yield question
            else:
                await asyncio.wait([ending], timeout=pause_s)
                pause_s = min(1.3 * pause_s, MAX_POLL_S)

    async def _settle(self, question: Question) -> None:
        """Get a question answered, by the client if possible.

        Raises:
            _NotAwaitedError: the request does not wait for the answer.
        """
        if await self._ask(question):
            return
        await self._record_waiting(question)
        self.exchange.drop_expected(self._key_of(question))
        if self.exchange.task_after_s is None:
            await self.exchange.finish_requests()
            if await self.runtime.approvals.get(question.approval_id) is not None:
                raise _NotAwaitedError(question)
            return
        self.waits_for[question.approval_id] = (
            f"{self._waiting_text(question)}\nNext: ask the user to {self._place(question)}."
        )
        self.exchange.note_long()
        await self._closed(question)
        del self.waits_for[question.approval_id]

    async def _ask(self, question: Question) -> bool:
        """Ask the person at the client; return whether the question is answered, here or elsewhere."""
        if self.denies_questions:
            await self.runtime.approvals.decide(question, Deny(message="the request cannot wait for an approval"))
            return True
        page = self._page_of(question)
        if page is None and not (self._may_answer(question) and self.exchange.accepts("elicitation/create")):
            return False
        await self._record_waiting(question)
        async with asyncio.TaskGroup() as group:
            asking = group.create_task(self._elicit(question) if page is None else self._show_page(question, page))
            closing = group.create_task(self._closed(question))
            await asyncio.wait((asking, closing), return_when=asyncio.FIRST_COMPLETED)
            is_answered_elsewhere = not asking.done()
            asking.cancel()
            closing.cancel()
        if is_answered_elsewhere:
            if page is not None:
                await self.exchange.complete_elicitation(question.approval_id)
            return True
        answer = asking.result()
        if answer is None:
            return False
        by = approver_of(self.exchange.context)
        outcome = await self.runtime.approvals.decide(question, answer, by=by)
        return not isinstance(outcome, Refused) or await self.runtime.approvals.get(question.approval_id) is None

    async def _record_waiting(self, question: Question) -> None:
        call = cast("InvocationId", self.invocation_id)
        await self.waiting.add(self.identity, call, question.expires_at, self.exchange)

    async def _elicit(self, question: Question) -> Answer | None:
        """Show a form, and return the answer of the person at the client; None if there is none."""
        asked = self._asked_by_server(question) or {}
        form = asked.get("schema")
        reply = await self._request(question, {"mode": "form", "requestedSchema": form or _FORM})
        if reply is not None and isinstance(form, dict) and reply.get("action") == "accept":
            return Edit(input={**asked, "answer": reply.get("content") or {}})
        return None if reply is None else _answer_in(reply)

    async def _request(self, question: Question, members: JsonObject) -> JsonObject | None:
        """Return the reply of the client to an elicitation; None if it gives none."""
        params: JsonObject = {**members, "message": self._message(question)}
        with suppress(CallerError):
            return await self.exchange.request("elicitation/create", params, key=self._key_of(question))
        return None

    def _key_of(self, question: Question) -> str:
        """Return the key of the request to the client: that of the server that asks, if it gave one."""
        key = (self._asked_by_server(question) or {}).get("key")
        return key if isinstance(key, str) else question.approval_id

    def _page_of(self, question: Question) -> str | None:
        """Return the page to show in place of a form; None if there is none, or the client shows no pages.

        An approval in the client is preferred, if it is allowed: it takes fewer steps.
        """
        if not self.exchange.accepts_pages:
            return None
        asked = self._asked_by_server(question)
        if asked is not None and isinstance(asked.get("url"), str):
            return cast("str", asked["url"]) if self._may_answer(question) else None
        if self.options.approvals_url is None or (
            self._may_answer(question) and self.exchange.accepts("elicitation/create")
        ):
            return None
        return f"{self.options.approvals_url}/{question.approval_id}"

    async def _show_page(self, question: Question, page: str) -> Answer | None:
        """Show a page in the client; return the answer if the page is of the server that asks.

        On the approval page, the approver answers and so closes the question: None is returned after a wait.
        """
        reply = await self._request(question, {"mode": "url", "url": page, "elicitationId": question.approval_id})
        if reply is not None and reply.get("action") == "accept":
            if self._asked_by_server(question) is not None:
                return Allow()
            await asyncio.sleep(PAGE_S)
        return None

    def _may_answer(self, question: Question) -> bool:
        """Return whether a question may be answered in the client; an approval only if its caller may approve it."""
        is_approval = self._asked_by_server(question) is None
        is_allowed = not is_approval or may_approve(self.exchange.context, own_calls=self.options.approves_own_calls)
        return self.options.asks_client and is_allowed

    def _asked_by_server(self, question: Question) -> JsonObject | None:
        """Return what an MCP server asks its user; None if this is an approval."""
        namespace, _, name = question.tool_name.partition(".")
        source = self.runtime.sources.get(namespace)
        if not isinstance(source, McpSource) or name != ASK_USER:
            return None
        return question.shown if isinstance(question.shown, dict) else None

    def _message(self, question: Question) -> str:
        asked = self._asked_by_server(question)
        if asked is not None:
            return f"{question.tool_name.partition('.')[0]} asks: {asked['message']}"
        return (
            f"Allow {question.tool_name}?\n\nArguments: {json_bytes(question.shown).decode()}\n\n"
            f"Why you are asked: {question.reason}\n"
            f"Question {question.approval_id}, open until {question.expires_at}."
        )

    async def _closed(self, question: Question) -> None:
        """Return once a question is not open any more, because it was answered elsewhere or has expired."""
        pause_s = POLL_S
        while await self.runtime.approvals.is_open(question.approval_id):
            await asyncio.sleep(pause_s)
            pause_s = min(1.3 * pause_s, MAX_POLL_S)

    def _waiting_text(self, question: Question) -> str:
        again = "" if self._earlier is None else " again"
        return (
            f"approval_required: {question.tool_name} has not run{again}. It waits for a person to approve it:"
            f" {question.reason}"
        )

    def _place(self, question: Question) -> str:
        """Return the step with which a user answers a question outside of the client."""
        where = f"run `{self.options.answer_command}`"
        if self.options.approvals_url is not None:
            where = f"open {self.options.approvals_url}/{question.approval_id} or to {where}"
        return f"{where} (question {question.approval_id}, open until {question.expires_at})"

    def _advice(self, question: Question) -> str:
        return (
            f"{self._waiting_text(question)}\nNext: ask the user to {self._place(question)}. Once it is approved, make"
            " the same call again with the same arguments: that returns the result of this call, and does not run it"
            " twice."
        )

    async def _where_to_answer(self, question: Question) -> JsonObject:
        content: list[Json] = [{"type": "text", "text": self._advice(question)}]
        first = None if self._earlier is None else await self.runtime.journal.result(self._earlier.invocation_id)
        if first is not None:
            content.append({"type": "text", "text": f"The result of {first.invocation_id}, which ran, follows."})
            content += list_of((await call_result(first, self._fetch, any_structure=False))["content"])
        meta: JsonObject = {INVOCATION_KEY: question.invocation_id, APPROVAL_KEY: question.approval_id}
        return {"content": content, "isError": True, "_meta": meta}

    async def _fetch(self, ref: Ref) -> bytes | None:
        with suppress(StoreError):
            return await self.runtime.journal.payload(ref)
        return None

    async def cancel(self) -> JsonObject:
        """Cancel the governed call, because its client has canceled the request or is gone.

        A call whose request the server ended continues, as that of any other HTTP request.
        """
        context = self.exchange.context
        if self.invocation_id is not None and not self.exchange.is_left and not is_ended_here(context):
            by = approver_of(context)
            await self.runtime.cancel(self.invocation_id, by=by)
            await self.waiting.remove(self.identity, self.invocation_id)
        return {}


def _answer_in(reply: JsonObject) -> Answer | None:
    """Return the answer in a reply; None if the person closed the form without one."""
    members = object_of(reply.get("content"))
    message = members.get("message")
    words = message if isinstance(message, str) and message else None
    if reply.get("action") == "accept" and members.get("decision") == "allow":
        return Allow(feedback=words)
    if reply.get("action") == "cancel":
        return None
    return Deny(message=words)
