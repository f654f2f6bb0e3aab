"""`agenttool approvals`: list and answer the open approval requests of every process on a store."""

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Iterable, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Annotated, NamedTuple

import typer
from rich.console import Console
from rich.table import Table
from rich.text import Text

from agenttool.adapters.python.source import Tool, load_tools
from agenttool.adapters.rap.declare import source_name_in
from agenttool.cli.format import print_json, print_result
from agenttool.cli.options import (
    ByOption,
    SettingsOption,
    StoreOption,
    StoreOptions,
    UrlOption,
    open_journal,
    server_url,
)
from agenttool.cli.output import done, figures, plain_table, print_error, print_text
from agenttool.cli.prompt import (
    Skipped,
    Terminal,
    age_and_expiry,
    answer_prompt,
    ask_approval,
    ask_open_prompts,
    now,
    parse_choice,
    print_question,
    prompt_json,
    question_json,
    shown_mark,
    unseen_text,
    was_shown,
)
from agenttool.cli.recorded_call import server_state, waiting_for_tools
from agenttool.codec import json_bytes, parse_object, to_json
from agenttool.config import AUTO, rule_files
from agenttool.config.program import program_name
from agenttool.config.table import suggestion
from agenttool.errors import ConfigError, StoreError
from agenttool.history.listed_call import open_calls, tool_name
from agenttool.history.printable import printable
from agenttool.journal.steps import STEPS
from agenttool.pipeline.stored_approvals import checkpoint_in
from agenttool.policy.approvals import (
    Allow,
    Answer,
    Deny,
    Edit,
    Question,
    RefusalReason,
    Refused,
    Remember,
    RememberScope,
)
from agenttool.policy.rules import parse_timestamp
from agenttool.policy.wildcards import fits
from agenttool.records import ApprovalId, InvocationId, JsonObject, Timestamp, ToolResult
from agenttool.runtime import Runtime
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


def approvals(  # noqa: PLR0913 -- one for each option of the command
    words: Annotated[
        list[str] | None, typer.Argument(metavar="answer ID allow|deny|N", help="Answer one question, without a prompt")
    ] = None,
    *,
    store: StoreOption = None,
    settings: SettingsOption = None,
    places: Annotated[
        list[str] | None, typer.Option("--from", metavar="MODULE[:NAME]", help="Recover calls of these tools")
    ] = None,
    shown: Annotated[
        str | None, typer.Option(metavar="DIGEST", help="The question as you saw it; the list prints its digest")
    ] = None,
    by: ByOption = None,
    message: Annotated[str | None, typer.Option(help="Text that the model reads with the answer")] = None,
    edited: Annotated[str | None, typer.Option("--input", metavar="JSON", help="Run this input instead")] = None,
    remember: Annotated[int | None, typer.Option(metavar="N", help="Also add the N-th suggested rule")] = None,
    save: Annotated[
        str, typer.Option(metavar="PLACE", help="Where rules are added: store, session, local, project or user")
    ] = RememberScope.STORE.value,
    tool: Annotated[str | None, typer.Option(metavar="NAME", help="Only this tool; * matches any characters")] = None,
    containing: Annotated[str | None, typer.Option(metavar="TEXT", help="Only inputs that contain this text")] = None,
    after: Annotated[str | None, typer.Option(metavar="APR_ID", help="Only questions asked after this one")] = None,
    limit: Annotated[
        int | None, typer.Option(min=1, metavar="N", help=f"At most N; {DEFAULT_LIMIT} without a terminal")
    ] = None,
    newest: Annotated[bool, typer.Option("--newest", help="Newest first, not oldest first")] = False,
    url: UrlOption = None,
    count: Annotated[bool, typer.Option("--count", help="Only print how many wait, tool by tool")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON Lines and nothing else")] = False,
) -> None:
    """List the calls that wait for approval, and answer them."""
    known = (*(str(each) for each in RememberScope), *rule_files(settings))
    if save not in known:
        raise ConfigError(f"rules are not added to {save!r}; {suggestion(save, known)}")
    local = {"from": places, "containing": containing, "after": after, "newest": newest, "count": count}
    server = server_url(url, store=store, settings=settings, by=by, **local)
    answer = _parse_answer(words or [], message, edited, remember)
    if server is not None:
        if answer is None:
            from agenttool.cli.remote import print_approvals  # noqa: PLC0415 -- it loads the HTTP client

            print_approvals(server, tool, limit or DEFAULT_LIMIT, as_json=as_json)
        else:
            _answer_on(server, answer, shown, message, save, as_json=as_json)
        return
    options = StoreOptions(store, settings).for_use()
    file = options.existing_file()
    # A command suggested without --settings finds the default file by itself.
    shown_options = StoreOptions(store) if settings is None else options
    tools = load_tools(places) if places and (words or not as_json) and not count else []
    last_seen = ApprovalId(after) if after else None
    questions = QuestionFilter(tool=tool, containing=containing, after=last_seen, limit=limit, newest_first=newest)

    async def run() -> int:
        rt = Runtime.open(config=settings or AUTO, store=options.store, tools=tools, approve="wait")
        session = ApprovalSession(rt, tools, shown_options, by=by, save=save, as_json=as_json)
        return await session.run(answer, questions, count=count, shown=shown)

    try:
        status = asyncio.run(run())
    except (ConfigError, StoreError):
        if answer is None and not count:
            _print_read_only(file, questions, as_json=as_json)
        raise
    if status:
        raise typer.Exit(status)


def _answer_on(
    server: str,
    asked: "ApprovalAnswer | PromptAnswer",
    shown: str | None,
    message: str | None,
    save: str,
    *,
    as_json: bool,
) -> None:
    if isinstance(asked, PromptAnswer):
        raise ConfigError("prompts of providers cannot be answered with --url; answer on the machine of the server")
    from agenttool.cli.remote import answer_approval  # noqa: PLC0415 -- it loads the HTTP client

    part, answer, number = asked
    given = answer_approval(server, part, answer, shown=shown, message=message, suggestion=number, scope=save)
    if given is None:
        raise typer.Exit(REJECTED)
    print_json(given) if as_json else done(f"{given['approval_id']}: {given['answer']} by {given['by']}")


def _print_read_only(file: Path, questions: "QuestionFilter", *, as_json: bool) -> None:
    """Print the questions of a store that cannot be written, such as one on a full disk; none can be answered."""
    with SqliteReader.open(file, steps=STEPS) as reader:
        checkpoints = (checkpoint_in(each) for each in reader.open_calls() if each.approval_id and each.answer is None)
        found = [each.question for each in checkpoints if each is not None and each.question is not None]
    wanted = [each for each in found if questions.matches(each)]
    for question in wanted[: DEFAULT_LIMIT if questions.limit is None else questions.limit]:
        document = question_json(question)
        print_json(document) if as_json else print_question(Console(), document)


class ApprovalAnswer(NamedTuple):
    """An answer from the command line; `suggestion` is the number of the rule to remember."""

    approval_id: ApprovalId
    answer: Answer
    suggestion: int | None = None


class PromptAnswer(NamedTuple):
    """A choice from the command line for a provider's prompt; none is its default."""

    prompt_id: str
    choice: int | None


def _parse_answer(
    words: list[str], message: str | None, edited: str | None, remember: int | None
) -> ApprovalAnswer | PromptAnswer | None:
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
        return ApprovalAnswer(ApprovalId(target), Deny(message=message))
    if edited is not None:
        updated = parse_object(edited, what="--input")
        return ApprovalAnswer(ApprovalId(target), Edit(input=updated, feedback=message))
    return ApprovalAnswer(ApprovalId(target), Allow(feedback=message), remember)


@dataclass(frozen=True, slots=True, kw_only=True)
class QuestionFilter:
    """Which open questions are wanted, and how many. They are read in pages, so that many need little memory.

    Attributes:
        tool: the name of a tool, in which `*` matches any characters.
        containing: text in the input as it is shown, in any case.
        after: the last question that was seen.
    """

    tool: str | None = None
    containing: str | None = None
    after: ApprovalId | None = None
    limit: int | None = None
    newest_first: bool = False

    def matches(self, question: Question) -> bool:
        """Return whether a question is wanted."""
        name = question.tool_name
        if self.tool is not None and not any(fits(self.tool, each) for each in (name, name.rpartition(".")[2])):
            return False
        return self.containing is None or self.containing.lower() in json_bytes(question.shown).decode().lower()

    async def select(self, rt: Runtime) -> AsyncIterator[Question]:
        """Yield the wanted questions of every process on the store."""
        if self.newest_first:
            for question in reversed(deque([each async for each in self.all(rt)], maxlen=self.limit)):
                yield question
            return
        count = 0
        async for question in self.all(rt):
            if count == self.limit:
                return
            count += 1
            yield question

    async def all(self, rt: Runtime) -> AsyncIterator[Question]:
        """Yield every matching question, oldest first, without regard to the limit."""
        after = self.after
        while page := await rt.approvals.list(limit=PAGE_SIZE, after=after):
            for question in page:
                if self.matches(question):
                    yield question
            after = page[-1].approval_id


@dataclass(slots=True)
class ToolBacklog:
    """The open questions of one tool: how many, the oldest, and when the first expires."""

    tool_name: str
    waiting: int
    oldest: ApprovalId
    asked_at: Timestamp
    expires_at: Timestamp


def _backlog_table(found: Iterable[ToolBacklog]) -> Table:
    rows = (
        (f"{each.waiting:,}", Text(printable(each.tool_name)), *age_and_expiry(each.asked_at, each.expires_at))
        for each in found
    )
    return plain_table(figures("waiting"), "tool", "oldest", "", rows=rows)


class ApprovalSession:
    """Lists and answers questions on one open runtime, and recovers calls whose process is gone."""

    def __init__(
        self, rt: Runtime, tools: list[Tool], options: StoreOptions, *, by: str | None, save: str, as_json: bool
    ) -> None:
        """Use a runtime with the given tools; `options` are repeated in suggested commands."""
        self.rt = rt
        self.terminal = Terminal()
        self._by = by
        self._save = save
        self._tools = tools
        self._options = options
        self._as_json = as_json
        self._recovered: set[InvocationId] = set()
        self._shown: set[InvocationId] = set()

    async def run(
        self,
        answer: ApprovalAnswer | PromptAnswer | None,
        questions: QuestionFilter,
        *,
        count: bool,
        shown: str | None = None,
    ) -> int:
        """Open the runtime, and give the answer or print the questions; return the exit code."""
        listener = asyncio.ensure_future(self._collect_recovered())
        await asyncio.sleep(0)
        try:
            async with self.rt:
                if isinstance(answer, PromptAnswer):
                    chosen = await answer_prompt(self.rt, self.terminal.console, answer.prompt_id, answer.choice)
                    return 0 if chosen else REJECTED
                if answer is not None:
                    return await self._answer(answer, shown)
                if count:
                    await self._print_counts(questions)
                elif self._as_json:
                    await self._print_questions(questions)
                else:
                    await self._recover()
                    await self._ask_each(questions)
                    await self._recover()
                return 0
        finally:
            listener.cancel()

    async def _collect_recovered(self) -> None:
        async for _, event in self.rt.journal.events(-1):
            if event.invocation_id is not None and "attempt" in (event.data or {}):
                self._recovered.add(event.invocation_id)

    async def _ask_each(self, questions: QuestionFilter) -> None:
        """Print the wanted questions and the open prompts; ask the user if there is one."""
        interactive = self.terminal.is_interactive
        console = self.terminal.console if interactive else Console()
        if not interactive and questions.limit is None:
            questions = replace(questions, limit=DEFAULT_LIMIT)
        shown: list[Question] = []
        async for question in questions.select(self.rt):
            if shown:
                console.print()
            shown.append(question)
            print_question(console, question_json(question))
            while interactive and parse_timestamp(question.expires_at) > now():
                answer = await ask_approval(self.terminal, question, can_skip=True)
                if isinstance(answer, Skipped):
                    if answer.all:
                        return
                    break
                if await self._decide(question, answer) != INVALID:
                    break
        if not await ask_open_prompts(self.rt, self.terminal, self._options.arguments) and not shown:
            console.print("nothing waits for an answer")
        await self._print_waiting_for_tools()
        if shown and not interactive:
            self._print_next_commands(shown, is_limit_reached=len(shown) == questions.limit)

    async def _print_waiting_for_tools(self) -> None:
        """Print which calls were answered and wait for a process that has their tools."""
        with open_journal(str(self._options.existing_file())) as reader:
            waiting = [call for call in open_calls(reader) if call.owner is not None and call.owner.waits_for_tool]
        here = set(self.rt.open_calls())
        stranded = [call for call in waiting if call.facts[0][1].invocation_id not in here]
        if stranded:
            names = (tool_name(call.tool_id) for call in stranded)
            what = "1 other call" if len(stranded) == 1 else f"{len(stranded):,} other calls: each"
            self.terminal.print_hint(f"{what} {waiting_for_tools(names, self._options.arguments)}")

    def _print_next_commands(self, shown: Sequence[Question], *, is_limit_reached: bool) -> None:
        named = ("APR_ID", "DIGEST") if len(shown) > 1 else (shown[0].approval_id, shown_mark(shown[0].shown_digest))
        answer = "answer {} allow --shown {}".format(*named)
        hints = [f"to answer: {program_name()} approvals {answer}{self._options.arguments}"]
        if is_limit_reached:
            counting = f"{program_name()} approvals --count{self._options.arguments}"
            hints.append(f"there may be more: --after APR_ID continues, --tool and --containing filter, {counting}")
        self.terminal.print_hint("\n" + "\n".join(hints))

    async def _print_questions(self, questions: QuestionFilter) -> None:
        """Print the wanted questions, then the open prompts, as JSON Lines."""
        async for question in questions.select(self.rt):
            print_json(question_json(question))
        for prompt in await self.rt.prompts.list():
            print_json(prompt_json(prompt))

    async def _print_counts(self, questions: QuestionFilter) -> None:
        """Print how many questions wait, tool by tool, most first."""
        found: dict[str, ToolBacklog] = {}
        async for each in questions.all(self.rt):
            first = ToolBacklog(each.tool_name, 0, each.approval_id, each.asked_at, each.expires_at)
            backlog = found.setdefault(each.tool_name, first)
            backlog.waiting += 1
            backlog.expires_at = min(backlog.expires_at, each.expires_at)
        ordered = sorted(found.values(), key=lambda backlog: -backlog.waiting)
        if self._as_json:
            for backlog in ordered:
                print_json(asdict(backlog))
        else:
            Console(highlight=False).print(_backlog_table(ordered) if ordered else "nothing waits for an answer")

    async def _answer(self, answer: ApprovalAnswer, shown: str | None) -> int:
        """Give the answer of the command line; return the exit code.

        The approver saw the question in an earlier process, so `shown` says which question that was.
        """
        question = await self._find_question(answer.approval_id)
        if question is None:
            print_error("not_open", f"{answer.approval_id}: {await self._why_not_open(answer.approval_id)}")
            status = REJECTED
        elif not was_shown(question.shown_digest, shown):
            self._print_unseen(question, shown)
            status = REJECTED
        else:
            status = await self._decide(question, answer.answer, answer.suggestion)
        await self._recover()
        return status

    async def _find_question(self, part: str) -> Question | None:
        """Return the open question whose id begins or ends with a text, or whose call's id ends with it.

        Raises:
            ConfigError: several have such an id.
        """
        if (exact := await self.rt.approvals.get(part)) is not None:
            return exact
        wanted = part if part.startswith("apr_") else f"apr_{part}"
        found = [
            each
            async for each in QuestionFilter().all(self.rt)
            if each.approval_id.startswith(wanted)
            or any(id_.endswith(part) for id_ in (each.approval_id, each.invocation_id))
        ]
        if len(found) > 1:
            matches = "\n".join(f"  {each.approval_id}  {printable(each.tool_name)}" for each in found[:MAX_MATCHES])
            raise ConfigError(f"several questions have an id like {part!r}; write more of it:\n{matches}")
        return found[0] if found else None

    def _print_unseen(self, question: Question, shown: str | None) -> None:
        """Print the question that an answer is not about, and how to answer it as it is now."""
        if not self._as_json:
            print_question(self.terminal.console, question_json(question))
        code = "not_shown" if shown is None else "other_question"
        print_error(code, f"{question.approval_id}: {unseen_text(question.shown_digest, shown)}")

    async def _why_not_open(self, approval_id: ApprovalId) -> str:
        # Both ids are made of the same characters.
        call = InvocationId("inv_" + approval_id.partition("_")[2].rpartition("-")[0])
        ended = await self.rt.journal.result(call)
        if ended is not None:
            command = f"{program_name()} show {ended.invocation_id}{self._options.journal_arguments}"
            return f"its call has ended ({ended.status.value}); see: {command}"
        if await self.rt.journal.invocation(call) is not None:
            return "it was answered already; the first answer counts"
        return f"there is no such question; list the open ones: {program_name()} approvals{self._options.arguments}"

    async def _decide(self, question: Question, answer: Answer, remember: int | JsonObject | None = None) -> int:
        """Give an answer and print what follows from it; return the exit code."""
        if isinstance(answer, Remember):
            answer, remember = Allow(feedback=answer.feedback), answer.rule
        outcome = await self.rt.approvals.decide(question, answer, by=self._by, remember=remember, save=self._save)
        if isinstance(outcome, Refused):
            print_error(outcome.reason.value, f"{question.approval_id}: {outcome.message}")
            return INVALID if outcome.reason in _INVALID_ANSWERS else REJECTED
        word = "refused" if isinstance(answer, Deny) else "allowed"
        if not self._as_json:
            file = None if remember is None else rule_files(self._options.settings).get(self._save)
            where = "" if file is None else f" and added a rule to {file}"
            print_text(self.terminal.console, f"{word} {question.approval_id}{where}", "green")
        call = question.invocation_id
        result = await self._wait_for_result(call, None if self._tools else RESULT_TIMEOUT_S)
        if self._as_json:
            recorded = None if result is None else to_json(result)
            answered = {"approval_id": question.approval_id, "invocation_id": call, "answer": word}
            print_json({**answered, "result": recorded})
        elif result is not None:
            print_result(result)
        else:
            self.terminal.print_hint(await self._how_to_continue(call))
        return 0

    async def _wait_for_result(self, invocation_id: InvocationId, within_s: float | None) -> ToolResult | None:
        """Return the call's result, whichever process runs it; none if it does not arrive in time."""
        self._shown.add(invocation_id)
        with suppress(TimeoutError):
            async with asyncio.timeout(within_s):
                while (result := await self.rt.journal.result(invocation_id)) is None:
                    await asyncio.sleep(_POLL_S)
                    await self.rt.recover()
                return result
        return None

    async def _how_to_continue(self, invocation_id: InvocationId) -> str:
        """Return which process continues a call that did not end in time, and the next command."""
        show = f"  agenttool show {invocation_id}{self._options.journal_arguments}"
        pending = await self.rt.deferred.get(invocation_id)
        if pending is not None:
            server = self.rt.sources.status_of(source_name_in(pending.tool_id))
            return f"{server_state(server)}, and `{program_name()} serve` receives the result; then run:\n{show}"
        invocation = await self.rt.journal.invocation(invocation_id)
        sources = {each.source for each in await self.rt.sources.status()}
        if invocation is not None and source_name_in(invocation.tool_id) in sources:
            return f"its process, or `{program_name()} serve` with these settings, continues it; then run:\n{show}"
        recover = f"  agenttool approvals --from MODULE{self._options.arguments}"
        return f"its process continues it; if that process is gone, name the module of the tool:\n{recover}"

    async def _recover(self) -> None:
        """Continue answered calls whose process is gone, and print their results."""
        if not self._tools or self._as_json:
            return
        await self.rt.recover()
        await asyncio.sleep(_POLL_S)
        ended = [each for each in self._recovered if await self.rt.journal.result(each) is not None]
        for invocation_id in sorted({*self.rt.open_calls(), *ended} - self._shown):
            self.terminal.print_hint(f"recovering {invocation_id}, whose process is gone")
            if (result := await self._wait_for_result(invocation_id, None)) is not None:
                print_result(result)
