"""`agenttool approvals`: list and answer the open approval requests of a store, in any process, or of a server."""

import asyncio
from collections import deque
from collections.abc import AsyncGenerator, AsyncIterator, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple, TypeAlias, cast

import msgspec
import typer
from rich.console import Console

from agenttool.adapters.python.source import Tool
from agenttool.call.checkpoint import checkpoint_in
from agenttool.cli.call_sources import JournalCalls, open_call_state, waiting_for_tools
from agenttool.cli.format import document_of, print_json, print_result
from agenttool.cli.options import CallOptions, argument, flag, option
from agenttool.cli.output import hint, is_json, print_error
from agenttool.cli.prompt import (
    ShownQuestion,
    Skipped,
    Terminal,
    answer_prompt,
    ask_approval,
    ask_open_prompts,
    now,
    parse_choice,
    print_backlog,
    print_question,
    prompt_json,
    shown_mark,
    shown_question,
    unseen_text,
    was_shown,
)
from agenttool.cli.remote import async_client
from agenttool.client import AsyncClient
from agenttool.codec import json_bytes, parse_object, to_json
from agenttool.config import rule_files
from agenttool.config.program import program_name
from agenttool.config.table import suggestion
from agenttool.errors import ConfigError, GatewayError, StoreError
from agenttool.history.listed_call import open_calls, tool_name
from agenttool.history.printable import printable
from agenttool.journal.steps import STEPS
from agenttool.policy.approvals import (
    Allow,
    Answer,
    Deny,
    Edit,
    RefusalReason,
    Refused,
    Remember,
    RememberScope,
)
from agenttool.policy.rules import parse_timestamp
from agenttool.policy.wildcards import fits
from agenttool.records import ApprovalId, Digest, InvocationId, JsonObject, Timestamp, ToolResult
from agenttool.runtime import Runtime
from agenttool.server.messages import Approval
from agenttool.stores.sqlite.reader import SqliteReader

REJECTED = 1
"""Exit code: the answer had no effect, because the question does not exist, was answered, or has expired."""

INVALID = 2
"""Exit code: the answer cannot be used, and the question is still open."""

_INVALID_ANSWERS = (RefusalReason.BAD_ANSWER, RefusalReason.BAD_INPUT, RefusalReason.BAD_RULE)

RESULT_TIMEOUT_S = 2.0
"""How long to wait for the result of a call that another process runs."""

DEFAULT_LIMIT = 20
"""How many questions are printed without a user and without --limit."""

PAGE_SIZE = 500
"""How many questions are read at a time."""

MAX_MATCHES = 20
"""How many questions with a similar id are listed."""

_POLL_S = 0.05


@dataclass(frozen=True, kw_only=True)
class ApprovalOptions(CallOptions):
    """The options of a command that answers questions; without modules it recovers no call."""

    from_: list[str] | None = option("--from MODULE[:NAME]", "Recover calls of these tools")


@dataclass(frozen=True, kw_only=True)
class QuestionFilter:
    """Which open questions are wanted, and how many. They are read in pages, so that many need little memory."""

    tool: str | None = option("--tool NAME", "Only this tool; * matches any characters")
    containing: str | None = option("--containing TEXT", "Only inputs that contain this text")
    after: str | None = option("--after APR_ID", "Only questions asked after this one")
    limit: int | None = option("--limit N", f"At most N; {DEFAULT_LIMIT} without a terminal", low=1)
    newest: bool = flag("--newest", "Newest first, not oldest first")

    def matches(self, question: ShownQuestion) -> bool:
        """Return whether a question is wanted; the text may be in any case."""
        name = question.tool_name
        if self.tool is not None and not any(fits(self.tool, each) for each in (name, name.rpartition(".")[2])):
            return False
        return self.containing is None or self.containing.lower() in json_bytes(question.input).decode().lower()

    async def select(self, inbox: "Inbox", limit: int | None) -> AsyncIterator[ShownQuestion]:
        """Yield at most so many of the wanted questions."""
        if self.newest:
            for question in reversed(deque([each async for each in self.all(inbox)], maxlen=limit)):
                yield question
            return
        count = 0
        async for question in self.all(inbox):
            if count == limit:
                return
            count += 1
            yield question

    async def all(self, inbox: "Inbox") -> AsyncIterator[ShownQuestion]:
        """Yield every matching question, oldest first, without regard to the limit."""
        async for question in inbox.questions(self.after):
            if self.matches(question):
                yield question


@dataclass(frozen=True, kw_only=True)
class AnswerOptions:
    """What an answer has besides its word."""

    message: str | None = option("--message", "Text that the model reads with the answer")
    edited: str | None = option("--input JSON", "Run this input instead")
    remember: int | None = option("--remember N", "Also add the N-th suggested rule")

    def parse(self, words: list[str]) -> "ApprovalAnswer | PromptAnswer | None":
        """Return the answer of the command line; none without words.

        Raises:
            ConfigError: the words are no answer, or do not go with the options.
        """
        message, edited, remember = self.message, self.edited, self.remember
        if not words:
            if message is not None or edited is not None or remember is not None:
                raise ConfigError("--message, --input and --remember need an answer: answer APR_ID allow")
            return None
        verb, target, word = words if len(words) == 3 else ("", "", "")  # noqa: PLR2004 -- answer ID WORD
        if len(words) > 1 and words[1].startswith("prm_"):
            return PromptAnswer(words[1], parse_choice(word if verb == "answer" else ""))
        if verb != "answer" or word not in ("allow", "deny"):
            raise ConfigError(f"an answer is `answer APR_ID allow` or `answer APR_ID deny`, got {' '.join(words)!r}")
        if word == "deny" and (edited is not None or remember is not None):
            raise ConfigError("--input and --remember need allow; a deny takes a --message")
        if edited is not None and remember is not None:
            raise ConfigError("an edited input cannot be remembered; use --input or --remember")
        if word == "deny":
            return ApprovalAnswer(target, Deny(message=message))
        if edited is not None:
            return ApprovalAnswer(target, Edit(input=parse_object(edited, what="--input"), feedback=message))
        return ApprovalAnswer(target, Allow(feedback=message), remember)


def approvals(  # noqa: PLR0913 -- the parts of an answer
    words: list[str] | None = argument("answer ID allow|deny|N", "Answer one question, without a prompt"),
    *,
    options: ApprovalOptions,
    shown: str | None = option("--shown DIGEST", "The question as you saw it; the list prints its digest"),
    given: AnswerOptions,
    save: str = option(
        "--save PLACE",
        "Where rules are added: store, session, local, project or user",
        default=RememberScope.STORE.value,
    ),
    wanted: QuestionFilter,
    count: bool = flag("--count", "Only print how many wait, tool by tool"),
) -> None:
    """List the calls that wait for approval, and answer them."""
    known = (*(str(each) for each in RememberScope), *rule_files(options.settings))
    if save not in known:
        raise ConfigError(f"rules are not added to {save!r}; {suggestion(save, known)}")
    options, answer, tools = options.resolved(), given.parse(words or []), list[Tool]()
    if options.url is None:
        used = options.for_use()
        used.existing_file()
        # A command suggested without --settings finds the default file by itself.
        options = options if options.settings is None else used
        tools = options.load_tools() if (words or not is_json()) and not count else []

    async def run() -> int:
        async with _open_inbox(options, tools) as inbox:
            session = ApprovalSession(inbox, save)
            if answer is not None:
                return await session.answer(answer, shown)
            if count:
                print_backlog([each async for each in wanted.all(inbox)])
            else:
                await session.list_open(wanted)
            return 0

    try:
        status = asyncio.run(run())
    except (ConfigError, StoreError):
        if options.url is None and answer is None and not count:
            _print_read_only(options.existing_file(), wanted)
        raise
    if status:
        raise typer.Exit(status)


@asynccontextmanager
async def _open_inbox(options: CallOptions, tools: list[Tool]) -> "AsyncGenerator[Inbox]":
    if options.url is not None:
        async with async_client(options.url) as client:
            yield ServerInbox(client, options.arguments)
        return
    rt = Runtime.open(config=options.config, store=options.or_default().store, tools=tools, approve="wait")
    inbox = StoreInbox(rt, tools, options)
    listener = asyncio.ensure_future(inbox.collect_recovered())
    await asyncio.sleep(0)
    try:
        async with rt:
            yield inbox
    finally:
        listener.cancel()


def _print_read_only(file: Path, wanted: QuestionFilter) -> None:
    """Print the questions of a store that cannot be written, such as one on a full disk; none can be answered."""
    with SqliteReader.open(file, steps=STEPS) as reader:
        checkpoints = (checkpoint_in(each) for each in reader.open_calls() if each.approval_id and each.answer is None)
        found = [
            shown_question(each.question) for each in checkpoints if each is not None and each.question is not None
        ]
    for question in [*filter(wanted.matches, found)][: wanted.limit or DEFAULT_LIMIT]:
        print_json(document_of(question)) if is_json() else print_question(Console(), question)


class ApprovalAnswer(NamedTuple):
    """An answer from the command line; `suggestion` is the number of the rule to remember."""

    approval_id: str
    answer: Answer
    suggestion: int | None = None


class PromptAnswer(NamedTuple):
    """A choice from the command line for a provider's prompt; none is its default."""

    prompt_id: str
    choice: int | None


class StoreInbox:
    """The open questions of every process on a store, through a runtime that recovers calls whose process is gone."""

    def __init__(self, rt: Runtime, tools: list[Tool], options: CallOptions) -> None:
        """Use a runtime with the given tools."""
        self.rt, self._options, self._tools = rt, options, tools
        self.arguments = options.arguments
        self._recovered: set[InvocationId] = set()
        self._shown: set[InvocationId] = set()

    async def collect_recovered(self) -> None:
        """Note the calls that this runtime recovers; runs until it is canceled."""
        async for _, event in self.rt.journal.events(-1):
            if event.invocation_id is not None and "attempt" in (event.data or {}):
                self._recovered.add(event.invocation_id)

    async def questions(self, after: str | None = None) -> AsyncIterator[ShownQuestion]:
        """Yield the open questions, oldest first."""
        last = None if after is None else ApprovalId(after)
        while page := await self.rt.approvals.list(limit=PAGE_SIZE, after=last):
            for question in page:
                yield shown_question(question)
            last = page[-1].approval_id

    async def get(self, approval_id: str) -> ShownQuestion | Refused:
        """Return an open question by its id, or why it is not open."""
        found = await self.rt.approvals.get(approval_id)
        return await self.rt.approvals.closed(approval_id) if found is None else shown_question(found)

    async def decide(self, question: ShownQuestion, answer: Answer, save: str) -> str | Refused:
        """Answer a question as it was shown, and return the name of the approver."""
        given = Allow(feedback=answer.feedback) if isinstance(answer, Remember) else answer
        outcome = await self.rt.approvals.decide(
            question.approval_id,
            given,
            by=self._options.by,
            shown_digest=Digest(question.shown_digest),
            remember=answer.rule if isinstance(answer, Remember) else None,
            save=save,
        )
        return outcome if isinstance(outcome, Refused) else outcome.by.name

    def rule_file(self, save: str) -> Path | None:
        """Return the file to which rules are added; none if that place is no file."""
        return rule_files(self._options.settings).get(save)

    async def result(self, call: str) -> ToolResult | None:
        """Return the result of a call, whichever process runs it; none if it does not arrive in time."""
        invocation_id = InvocationId(call)
        self._shown.add(invocation_id)
        with suppress(TimeoutError):
            async with asyncio.timeout(None if self._tools else RESULT_TIMEOUT_S):
                while (result := await self.rt.journal.result(invocation_id)) is None:
                    await asyncio.sleep(_POLL_S)
                    await self.rt.calls.recover()
                return result
        return None

    async def state(self, call: str) -> str:
        """Return what a call that did not end in time waits for, and the command that continues it."""
        journal = JournalCalls(self._options.existing_file(), self.arguments)
        return open_call_state(journal.get(call), self.arguments)

    def waiting_for_tools(self) -> str | None:
        """Return which calls were answered and wait for a process that has their tools."""
        with self._options.open_journal() as reader:
            waiting = [call for call in open_calls(reader) if call.owner is not None and call.owner.waits_for_tool]
        here = set(self.rt.calls.open_ids())
        names = [tool_name(call.tool_id) for call in waiting if call.facts[0][1].invocation_id not in here]
        what = "1 other call" if len(names) == 1 else f"{len(names):,} other calls: each"
        return f"{what} {waiting_for_tools(names, self.arguments)}" if names else None

    async def recover(self, terminal: Terminal) -> None:
        """Continue answered calls whose process is gone, and print their results."""
        if not self._tools:
            return
        await self.rt.calls.recover()
        await asyncio.sleep(_POLL_S)
        ended = [each for each in self._recovered if await self.rt.journal.result(each) is not None]
        for invocation_id in sorted({*self.rt.calls.open_ids(), *ended} - self._shown):
            hint(f"recovering {invocation_id}, whose process is gone")
            if (result := await self.result(invocation_id)) is not None:
                print_result(result)


class ServerInbox:
    """The open questions of a server, with the methods of `StoreInbox`."""

    def __init__(self, client: AsyncClient, arguments: str) -> None:
        """Use an open client; the arguments name its server in suggested commands."""
        self._client, self.arguments = client, arguments

    async def questions(self, after: str | None = None) -> AsyncIterator[ShownQuestion]:
        """Yield the open questions, oldest first."""
        async for each in self._client.iter_approvals(after=after):
            yield _question(each)

    async def get(self, approval_id: str) -> ShownQuestion | Refused:
        """Return an open question by its id, or why it is not open."""
        try:
            return _question(await self._client.approval(approval_id))
        except GatewayError as error:
            return _refusal(approval_id, error)

    async def decide(self, question: ShownQuestion, answer: Answer, save: str) -> str | Refused:
        """Answer a question as it was shown, and return the name of the approver.

        Raises:
            ConfigError: a server does not add rules to that place.
            GatewayError: the server refuses the request.
        """
        if save not in list(RememberScope):
            raise ConfigError(f"a server does not add rules to {save!r}; use --save store or --save session")
        try:
            done = await self._client.decide(
                question,
                "deny" if isinstance(answer, Deny) else "allow",
                input=cast("JsonObject", answer.input) if isinstance(answer, Edit) else None,
                message=answer.message if isinstance(answer, Deny) else answer.feedback,
                remember=answer.rule if isinstance(answer, Remember) else None,
                scope="session" if save == RememberScope.SESSION else "store",
            )
        except GatewayError as error:
            return _refusal(question.approval_id, error)
        return done.by

    def rule_file(self, save: str) -> None:
        """Return none: a server adds no rule to a file."""

    async def result(self, call: str) -> ToolResult | None:
        """Return the result of a call; none if it does not arrive in time."""
        with suppress(TimeoutError):
            return await self._client.wait(call, timeout_s=RESULT_TIMEOUT_S)
        return None

    async def state(self, call: str) -> str:
        """Return what a call that did not end in time waits for."""
        return open_call_state(await self._client.get(call), self.arguments)


def _refusal(approval_id: str, error: GatewayError) -> Refused:
    """Return why a question cannot be answered; raise any other error."""
    if error.reason not in list(RefusalReason):
        raise error
    return Refused(approval_id=ApprovalId(approval_id), reason=RefusalReason(error.reason), message=str(error))


def _question(approval: Approval) -> ShownQuestion:
    return msgspec.json.decode(msgspec.json.encode(approval), type=ShownQuestion)


Inbox: TypeAlias = StoreInbox | ServerInbox


class ApprovalSession:
    """Lists and answers the questions of a store or of a server."""

    def __init__(self, inbox: Inbox, save: str) -> None:
        """Use an open inbox; rules are added to the place `save`."""
        self.inbox = inbox
        self.terminal = Terminal()
        self._save = save

    async def list_open(self, wanted: QuestionFilter) -> None:
        """Print the wanted questions, then the open prompts; ask the user if there is one."""
        store = self.inbox if isinstance(self.inbox, StoreInbox) else None
        if is_json():
            async for question in wanted.select(self.inbox, wanted.limit):
                print_json(document_of(question))
            for prompt in () if store is None else await store.rt.prompts.list():
                print_json(prompt_json(prompt))
            return
        await self._recover()
        interactive = self.terminal.is_interactive
        limit = wanted.limit if interactive else wanted.limit or DEFAULT_LIMIT
        if (shown := await self._ask_each(wanted.select(self.inbox, limit))) is not None:
            prompts = 0 if store is None else await ask_open_prompts(store.rt, self.terminal, store.arguments)
            if not shown and not prompts:
                (self.terminal.console if interactive else Console()).print("nothing waits for an answer")
            if store is not None and (waiting := store.waiting_for_tools()) is not None:
                hint(waiting)
            if shown and not interactive:
                self._print_next_commands(shown, is_limit_reached=len(shown) == limit)
        await self._recover()

    async def _recover(self) -> None:
        if isinstance(self.inbox, StoreInbox) and not is_json():
            await self.inbox.recover(self.terminal)

    async def _ask_each(self, questions: AsyncIterator[ShownQuestion]) -> Sequence[ShownQuestion] | None:
        """Print questions, and ask the user if there is one; return them, or none if the user skips the others."""
        interactive = self.terminal.is_interactive
        console = self.terminal.console if interactive else Console()
        shown: list[ShownQuestion] = []
        async for question in questions:
            if shown:
                console.print()
            shown.append(question)
            print_question(console, question)
            while interactive and not question.why_not and parse_timestamp(Timestamp(question.expires_at)) > now():
                answer = await ask_approval(self.terminal, question, can_skip=True)
                if isinstance(answer, Skipped):
                    if answer.all:
                        return None
                    break
                if await self._decide(question, answer) != INVALID:
                    break
        return shown

    def _print_next_commands(self, shown: Sequence[ShownQuestion], *, is_limit_reached: bool) -> None:
        named = ("APR_ID", "DIGEST") if len(shown) > 1 else (shown[0].approval_id, shown_mark(shown[0].shown_digest))
        answer = "answer {} allow --shown {}".format(*named)
        hints = [f"to answer: {program_name()} approvals {answer}{self.inbox.arguments}"]
        if is_limit_reached:
            counting = f"{program_name()} approvals --count{self.inbox.arguments}"
            hints.append(f"there may be more: --after APR_ID continues, --tool and --containing filter, {counting}")
        hint("\n" + "\n".join(hints))

    async def answer(self, given: ApprovalAnswer | PromptAnswer, shown: str | None) -> int:
        """Give the answer of the command line; return the exit code.

        The approver saw the question in an earlier process, so `shown` says which question that was.
        """
        if isinstance(given, PromptAnswer):
            if not isinstance(self.inbox, StoreInbox):
                raise ConfigError("a server takes no answers to prompts of providers; answer on its machine")
            chosen = await answer_prompt(self.inbox.rt, given.prompt_id, given.choice)
            return 0 if chosen else REJECTED
        question, status = await self._find_question(given.approval_id), REJECTED
        if isinstance(question, Refused):
            # Both ids are made of the same characters.
            call = "inv_" + question.approval_id.partition("_")[2].rpartition("-")[0]
            command = "approvals" if question.reason is RefusalReason.UNKNOWN else f"show {call}"
            see = f"see: {program_name()} {command}{self.inbox.arguments}"
            print_error("not_open", f"{given.approval_id}: {question.message}; {see}")
        elif not was_shown(question.shown_digest, shown):
            if not is_json():
                print_question(self.terminal.console, question)
            code = "not_shown" if shown is None else "other_question"
            print_error(code, f"{question.approval_id}: {unseen_text(question.shown_digest, shown)}")
        else:
            number, answer = given.suggestion, given.answer
            if number is not None and isinstance(answer, Allow):
                answer = question.remember(number, answer.feedback)
            status = await self._decide(question, answer)
        await self._recover()
        return status

    async def _find_question(self, part: str) -> ShownQuestion | Refused:
        """Return the open question whose id begins or ends with a text, or whose call's id ends with it; or why not.

        Raises:
            ConfigError: several have such an id.
        """
        exact = await self.inbox.get(part)
        if isinstance(exact, ShownQuestion):
            return exact
        wanted = part if part.startswith("apr_") else f"apr_{part}"
        found = [
            each
            async for each in self.inbox.questions()
            if each.approval_id.startswith(wanted)
            or any(id_.endswith(part) for id_ in (each.approval_id, each.invocation_id))
        ]
        if len(found) > 1:
            matches = "\n".join(f"  {each.approval_id}  {printable(each.tool_name)}" for each in found[:MAX_MATCHES])
            raise ConfigError(f"several questions have an id like {part!r}; write more of it:\n{matches}")
        return found[0] if found else exact

    async def _decide(self, question: ShownQuestion, answer: Answer) -> int:
        """Give an answer and print what follows from it; return the exit code."""
        by = await self.inbox.decide(question, answer, self._save)
        if isinstance(by, Refused):
            print_error(by.reason.value, f"{question.approval_id}: {by.message}")
            return INVALID if by.reason in _INVALID_ANSWERS else REJECTED
        word, call = "refused" if isinstance(answer, Deny) else "allowed", question.invocation_id
        if not is_json():
            file = self.inbox.rule_file(self._save) if isinstance(answer, Remember) else None
            where = "" if file is None else f" and added a rule to {file}"
            hint(f"{word} {question.approval_id}{where}", "green")
        result = await self.inbox.result(call)
        if is_json():
            answered = {"approval_id": question.approval_id, "invocation_id": call, "answer": word, "by": by}
            print_json({**answered, "result": None if result is None else to_json(result)})
        elif result is not None:
            print_result(result)
        else:
            hint(f"{await self.inbox.state(call)}\nthen run: {program_name()} show {call}{self.inbox.arguments}")
        return 0
