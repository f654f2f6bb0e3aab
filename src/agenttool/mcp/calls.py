"""Calls of tools by MCP clients: each is a governed call, with its approval inside."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import aclosing, suppress
from dataclasses import dataclass, field
from typing import cast

import mcp_types as types
from mcp.shared.exceptions import MCPError

from agenttool.adapters.mcp.elicitation import ASK_USER
from agenttool.adapters.mcp.source import McpSource
from agenttool.codec import json_bytes
from agenttool.errors import CallerError, StoreError
from agenttool.mcp.callers import approver_of, is_ended_here, may_approve
from agenttool.mcp.exchange import ClientExchange, is_stateless
from agenttool.mcp.results import INVOCATION_KEY, call_result, text_result
from agenttool.mcp.state import CallIdentity, WaitingCalls
from agenttool.policy.approvals import Allow, Answer, Deny, Edit, Question, Refused
from agenttool.ports.caller import CALLER
from agenttool.records import ApprovalId, InvocationId, JsonObject, Ref, ToolProgress, ToolResult, ToolSurface
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


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestedTool:
    """A tool as a client requests it.

    Attributes:
        name: the qualified name.
        surface: the surface to call it on; None for the surface of all tools.
        ends_with_process: a request that no client can follow after a restart, so it is not run again then.
    """

    name: str
    arguments: JsonObject
    surface: ToolSurface | None
    native_call_id: str | None
    ends_with_process: bool = False


@dataclass(slots=True, eq=False)
class ToolRun:
    """One governed call for a client, from its start to its result.

    Attributes:
        answer_command: the command that answers open questions outside the client.
        approvals_url: the page of open questions; None if there is none.
        asks_client: whether questions may be answered in the client, which can answer without its user.
        approves_own_calls: whether callers over HTTP may approve their own calls; with a token they need the role.
        denies_questions: whether a question is denied, because the request cannot wait for an approval.
    """

    runtime: Runtime
    exchange: ClientExchange
    identity: CallIdentity
    waiting: WaitingCalls
    answer_command: str
    approvals_url: str | None = None
    asks_client: bool = True
    approves_own_calls: bool = False
    denies_questions: bool = False
    invocation_id: InvocationId | None = None
    _asked: set[str] = field(default_factory=set[str])
    """The questions that need no look any more: answered here, or of other calls."""
    _result: ToolResult | None = None
    _idle: asyncio.Event | None = None

    def started(self, invocation_id: InvocationId) -> None:
        """Store the id of the call, as soon as it has one."""
        self.invocation_id = invocation_id

    def progressed(self, update: ToolProgress) -> None:
        """Pass a progress update to the client."""
        self.exchange.progressed(update)

    def ended(self, result: ToolResult) -> None:
        """Store the result of the call, if it ends in this process."""
        self._result = result

    @property
    def has_ended(self) -> bool:
        """Whether the call has ended in this process."""
        return self._result is not None

    async def start(self, tool: RequestedTool) -> InvocationId:
        """Start the call in a task of the runtime, without waiting for it; return its id."""
        CALLER.set(self.exchange)
        self._idle = asyncio.Event()
        started = await self.runtime.submit(
            tool.name,
            tool.arguments,
            surface=tool.surface,
            native_call_id=tool.native_call_id,
            actor_ref=self.identity.caller,
            observer=self,
            ends_with_process=tool.ends_with_process,
            on_idle=self._note_idle,
        )
        return started.invocation_id

    def _note_idle(self) -> None:
        if self._idle is not None:
            self._idle.set()
        self.exchange.wake()

    async def read(self, tool: RequestedTool) -> ToolResult:
        """Run a call for a request that is no call of a tool, such as the read of a resource; return its result.

        Raises:
            MCPError: it waits for an approval; the message names the place to approve it.
        """
        waiting = await self.waiting.take(self.identity, self.exchange)
        shown = await self.resume(await self.start(tool) if waiting is None else waiting)
        result = self._result or await self.runtime.journal.result(cast("InvocationId", self.invocation_id))
        if result is None:
            raise MCPError(types.INVALID_PARAMS, "\n".join(each.text for each in shown.content if each.type == "text"))
        return result

    async def resume(self, invocation_id: InvocationId) -> types.CallToolResult:
        """Wait for a call that was started; return its result, or a text about where to approve it.

        A canceled request cancels the call.
        """
        self.invocation_id = invocation_id
        try:
            if self._idle is not None:
                await self._idle.wait()
            if not self.has_ended:
                async with aclosing(self._questions(invocation_id)) as questions:
                    async for question in questions:
                        if not await self._ask(question):
                            await self._record_waiting(question)
                            return self._where_to_answer(question)
            result = self._result or await self.runtime.wait(invocation_id)
            if result is None:
                raise AssertionError("a wait without a limit returns a result")
            await self.waiting.remove(self.identity, invocation_id)
            return await call_result(result, self._fetch, any_structure=is_stateless(self.exchange.context))
        except asyncio.CancelledError:
            await self.cancel()
            raise

    async def _questions(self, invocation_id: InvocationId) -> AsyncGenerator[Question]:
        """Yield the open questions of a call and its nested calls, until the call has ended."""
        pause_s = POLL_S
        while await self.runtime.journal.result(invocation_id) is None:
            question = await self._open_question(invocation_id)
            if question is not None:
                yield question
            elif await self.runtime.wait(invocation_id, pause_s) is not None:
                return
            pause_s = min(1.3 * pause_s, MAX_POLL_S)

    async def _open_question(self, invocation_id: InvocationId) -> Question | None:
        """Return an open question of a call, or of a call that its tool made."""
        approvals = self.runtime.approvals
        own = await approvals.of_call(invocation_id)
        if own is not None and own.approval_id not in self._asked:
            return own
        after: ApprovalId | None = None
        while page := await approvals.list(after=after):
            after = page[-1].approval_id
            for question in page:
                if question.approval_id in self._asked:
                    continue
                root = await self._root_of(question.invocation_id, invocation_id)
                if root == invocation_id:
                    return question
                if root is not None:
                    self._asked.add(question.approval_id)
        return None

    async def _root_of(self, asking: InvocationId, wanted: InvocationId) -> InvocationId | None:
        """Return the wanted call if its tool made a call, otherwise the outermost one; None if it is not known yet."""
        while asking != wanted:
            found = await self.runtime.journal.invocation(asking)
            if found is None or found.parent_invocation_id is None:
                return None if found is None else asking
            asking = found.parent_invocation_id
        return asking

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
        self._asked.add(question.approval_id)
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
            return await self.exchange.request("elicitation/create", params, key=question.approval_id)
        return None

    def _page_of(self, question: Question) -> str | None:
        """Return the page to show in place of a form; None if there is none, or the client shows no pages.

        An approval in the client is preferred, if it is allowed: it takes fewer steps.
        """
        if not self.exchange.accepts_pages:
            return None
        asked = self._asked_by_server(question)
        if asked is not None and isinstance(asked.get("url"), str):
            return cast("str", asked["url"]) if self._may_answer(question) else None
        if self.approvals_url is None or (self._may_answer(question) and self.exchange.accepts("elicitation/create")):
            return None
        return f"{self.approvals_url}/{question.approval_id}"

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
        is_allowed = not is_approval or may_approve(self.exchange.context, own_calls=self.approves_own_calls)
        return self.asks_client and is_allowed

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
        while await self.runtime.approvals.get(question.approval_id) is not None:
            await asyncio.sleep(pause_s)
            pause_s = min(1.3 * pause_s, MAX_POLL_S)

    def _where_to_answer(self, question: Question) -> types.CallToolResult:
        where = f"run `{self.answer_command}`"
        if self.approvals_url is not None:
            where = f"open {self.approvals_url}/{question.approval_id} or to {where}"
        text = (
            f"approval_required: {question.tool_name} has not run. It waits for a person to approve it:"
            f" {question.reason}\n"
            f"Next: ask the user to {where} (question {question.approval_id}, open until"
            f" {question.expires_at}). Once it is approved, make the same call again with the same arguments: that"
            " returns the result of this call, and does not run it twice."
        )
        meta: JsonObject = {INVOCATION_KEY: question.invocation_id, APPROVAL_KEY: question.approval_id}
        return text_result(text, is_error=True, meta=meta)

    async def _fetch(self, ref: Ref) -> bytes | None:
        with suppress(StoreError):
            return await self.runtime.journal.payload(ref)
        return None

    async def cancel(self) -> types.Result:
        """Cancel the governed call, because its client has canceled the request or is gone.

        A call whose request the server ended continues, as that of any other HTTP request.
        """
        context = self.exchange.context
        if self.invocation_id is not None and not self.exchange.is_left and not is_ended_here(context):
            by = approver_of(context)
            await self.runtime.cancel(self.invocation_id, by=by)
        return types.EmptyResult()


def _answer_in(reply: JsonObject) -> Answer | None:
    """Return the answer in a reply; None if the person closed the form without one."""
    content = reply.get("content")
    members = content if isinstance(content, dict) else {}
    message = members.get("message")
    words = message if isinstance(message, str) and message else None
    if reply.get("action") == "accept" and members.get("decision") == "allow":
        return Allow(feedback=words)
    if reply.get("action") == "cancel":
        return None
    return Deny(message=words)
