"""`agenttool call`: one governed call from the terminal."""

import asyncio
import os
import shlex
import signal
import sys
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager, nullcontext, redirect_stdout, suppress
from dataclasses import dataclass
from http import HTTPStatus
from pathlib import Path
from typing import Annotated, NamedTuple

import typer
from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeElapsedColumn

from agenttool.adapters.python.source import Tool
from agenttool.cli.format import print_json, print_result
from agenttool.cli.options import CallOptions, argument, option, output_file, required
from agenttool.cli.output import INTERRUPTED, hint, is_json, print_error
from agenttool.cli.prompt import (
    Skipped,
    Terminal,
    ask_approval,
    ask_prompt,
    print_prompt,
    print_question,
    shown_question,
)
from agenttool.cli.remote import async_client
from agenttool.cli.result_files import ResultPayload, read_payloads, write_payloads
from agenttool.cli.tools import complete_tool_name, require_tools, sources_for
from agenttool.client import json_value, result_of
from agenttool.codec import parse_object, parse_value, to_json
from agenttool.config import load_config
from agenttool.config.program import program_name
from agenttool.errors import ConfigError, GatewayError, RecordError
from agenttool.history.printable import printable
from agenttool.policy.approvals import Refused
from agenttool.ports.deferred import Prompt, PromptKind
from agenttool.records import (
    ApprovalId,
    EventType,
    InvocationId,
    InvocationStatus,
    Json,
    JsonObject,
    ToolEvent,
    ToolInvocation,
    ToolResult,
    ToolSurface,
)
from agenttool.runtime import Runtime
from agenttool.scheduler.drive import UNSUPPORTED
from agenttool.schema.compile import compile_schema

PARKED = 3
"""Exit code: the call waits for an answer, and this process did not wait for it."""

SERVER_POLL_S = 2.0
"""How long a server waits with its answer about a call that has not ended."""

PROMPT_POLL_S = 0.5
"""How often a provider's prompts are read; another process may have received them."""

_ARGUMENT_PARTS = ("$schema", "$defs", "definitions", "properties")
"""The members of a schema that decide about one argument."""


@dataclass(frozen=True, kw_only=True)
class NewCallOptions(CallOptions):
    """The options of a command that makes a call, which is stored only where a file is named."""

    store: str | None = option(
        "--store FILE", "Store the call in this file; default: the one in the settings, else the call is not stored"
    )


def call(  # noqa: PLR0913 -- one for each option of the command
    name: Annotated[
        str,
        required("TOOL", "Name of the tool, with or without its namespace", completion=complete_tool_name),
    ],
    words: list[str] | None = argument("KEY=VALUE", "Arguments of the tool"),
    *,
    args: str | None = option("--args JSON", "Arguments as one JSON object"),
    args_file: Path | None = option("--args-file FILE", "File with the arguments as JSON"),
    options: NewCallOptions,
    out: Path | None = option(
        "--out FILE", "Write the complete output to this file; several outputs get numbered files"
    ),
    idempotency_key: str | None = option(
        "--idempotency-key KEY", "Make no second call with the same key; return the first one"
    ),
) -> None:
    """Call one tool with every check, and ask for approval if needed."""
    terminal, options, out = Terminal(), options.resolved(), output_file(out)
    is_durable = options.url is None and options.file is not None
    with redirect_stdout(sys.stderr) if is_json() else nullcontext():  # what a tool prints is not part of its result
        request = CommandLineCall(
            name=name,
            arguments=read_arguments(words or [], args, args_file),
            tools=options.load_tools(),
            options=options,
            is_durable=is_durable,
            is_interactive=terminal.is_interactive and not is_json(),
            wants_payloads=out is not None,
            idempotency_key=idempotency_key,
        )
        outcome = asyncio.run(request.run(terminal) if options.url is None else request.run_on(options.url))
    result, is_parked = outcome.result, outcome.is_parked
    is_error = result is None or result.is_error is True
    if out is not None and not is_error:
        for path, payload in write_payloads(outcome.payloads, out, name):
            hint(f"wrote {path} ({len(payload.data):,} bytes, {payload.media_type})")
    if is_json():
        print_json({"invocation_id": outcome.invocation_id} if result is None else to_json(result))
    elif is_parked or result is None:
        hint(f"{outcome.invocation_id} waits for an answer: {program_name()} approvals{options.arguments}", None)
    else:
        if out is None or is_error:
            print_result(result)
        if outcome.note is not None:
            hint(outcome.note, "yellow")
        if is_durable:
            hint(f"{program_name()} show {result.invocation_id}{options.arguments}")
    if is_error:
        is_canceled = result is not None and result.status == "canceled"
        raise typer.Exit(PARKED if is_parked else INTERRUPTED if is_canceled else 1)


class CallOutcome(NamedTuple):
    """How a call from the command line ended.

    Attributes:
        result: what the caller reads; none if a server has no result yet.
        is_parked: a question is left open for another process.
        note: what a cancellation achieved.
        payloads: what the tool returned, if it is to be written to files.
    """

    invocation_id: str
    result: ToolResult | None
    is_parked: bool = False
    note: str | None = None
    payloads: tuple[ResultPayload, ...] = ()


@dataclass(frozen=True, slots=True)
class Arguments:
    """The arguments as they were given; the tool's schema decides what single values mean.

    Attributes:
        values: the arguments given as JSON.
        words: the arguments given as KEY=VALUE.
    """

    values: JsonObject
    words: dict[str, str]

    def for_schema(self, schema: JsonObject) -> JsonObject:
        """Return all arguments; a word that is JSON is read as JSON, unless the schema accepts only the text."""
        return {**self.values, **{key: _value(key, text, schema) for key, text in self.words.items()}}


def read_arguments(words: list[str], args: str | None, file: Path | None) -> Arguments:
    """Read a file with a JSON object, a JSON object, and KEY=VALUE words; later ones override earlier ones.

    Raises:
        RecordError: one of them cannot be read.
    """
    values: JsonObject = {}
    try:
        if file is not None:
            values |= parse_object(file.read_bytes(), what=f"the content of {str(file)!r}")
    except OSError as error:
        raise RecordError(f"arguments cannot be read: {str(file)!r}: {error.strerror}; name another file") from error
    if args is not None:
        values |= parse_object(args, what="--args")
    for word in words:
        if word.find("=") < 1:
            raise RecordError(f"an argument must be KEY=VALUE, got {word!r}; add the value, or pass JSON with --args")
    return Arguments(values, dict(word.split("=", 1) for word in words))


def _value(key: str, text: str, schema: JsonObject) -> Json:
    try:
        value = parse_value(text)
    except RecordError:
        return text
    properties = schema.get("properties")
    wanted = properties.get(key) if isinstance(properties, dict) else None
    if isinstance(wanted, dict) and wanted.get("type") == "string" and not isinstance(value, str):
        return text
    try:
        checker = compile_schema({name: part for name, part in schema.items() if name in _ARGUMENT_PARTS})
    except RecordError:
        return value
    return text if checker.accepts({key: text}) and not checker.accepts({key: value}) else value


@dataclass(frozen=True, slots=True, kw_only=True)
class CommandLineCall:
    """One call that the command line asks for.

    Attributes:
        is_durable: the call is stored in a file.
        is_interactive: a user at the terminal can be asked.
    """

    name: str
    arguments: Arguments
    tools: list[Tool]
    options: CallOptions
    is_durable: bool
    is_interactive: bool
    wants_payloads: bool = False
    idempotency_key: str | None = None

    async def run(self, terminal: Terminal) -> CallOutcome:
        """Make the call, and wait for its end or for a question that is left open."""
        approve = "wait" if self.is_interactive or self.is_durable else None
        config = load_config(self.options.config)
        config, unconnected = sources_for(config, self.name, self.tools, is_run=True)
        async with Runtime.open(
            config=config, store=self.options.store, tools=self.tools, approve=approve, sources=unconnected
        ) as rt:
            words = (self.name, *(f"{key}={value}" for key, value in self.arguments.words.items()))
            require_tools(rt, self.tools, f"{program_name()} call {shlex.join(words)} --from MODULE")
            surface = await _surface_with(rt, self.name)
            arguments = self.arguments.for_schema(input_schema(rt, self.name))
            monitor = CallMonitor(rt, terminal, self)
            async with monitor.running():
                calling = asyncio.ensure_future(
                    rt.call(self.name, arguments, surface=surface, idempotency_key=self.idempotency_key)
                )
                asyncio.get_running_loop().add_signal_handler(signal.SIGINT, _interrupt_handler(rt, terminal))
                parked = asyncio.ensure_future(monitor.parked.wait())
                await asyncio.wait((calling, parked), return_when=asyncio.FIRST_COMPLETED)
                parked.cancel()
            if calling.done():
                return await self._ended(rt, calling.result())
        result = await calling
        return CallOutcome(result.invocation_id, result, is_parked=True)

    async def run_on(self, server: str) -> CallOutcome:
        """Make the call on a server, and wait for its end or for a question, which is answered elsewhere.

        Raises:
            GatewayError: the server refused the call, or did not answer.
        """
        async with async_client(server) as client:
            schema: Json = {}
            try:
                schema = json_value((await client.tool(self.name)).input_schema)
            except GatewayError as error:
                if error.status != HTTPStatus.NOT_FOUND:  # the call itself explains best what is wrong with the name
                    raise
            arguments = self.arguments.for_schema(schema if isinstance(schema, dict) else {})
            call = await client.start(self.name, arguments, idempotency_key=self.idempotency_key, wait_s=SERVER_POLL_S)
            while (result := result_of(call)) is None and call.approval_id is None:
                call = await client.get(call.invocation_id, wait_s=SERVER_POLL_S)
            payloads: tuple[ResultPayload, ...] = ()
            if self.wants_payloads and result is not None and not result.is_error:
                payloads = await read_payloads(lambda ref: client.payload(call.invocation_id, str(ref.digest)), result)
        return CallOutcome(call.invocation_id, result, is_parked=result is None, payloads=payloads)

    async def _ended(self, rt: Runtime, result: ToolResult) -> CallOutcome:
        invocation = await rt.journal.invocation(result.invocation_id)
        note = None if invocation is None else _cancellation_outcome(invocation)
        is_wanted = self.wants_payloads and not result.is_error
        payloads = await read_payloads(rt.journal.payload, result) if is_wanted else ()
        return CallOutcome(result.invocation_id, result, note=note, payloads=payloads)


async def _surface_with(rt: Runtime, name: str) -> ToolSurface:
    """Return a surface on which the named tool is loaded, even if models must search for it first."""
    surface = await rt.surface()
    with suppress(ConfigError):  # the call itself explains best what is wrong with the name
        return await rt.load([name], surface=surface)
    return surface


def input_schema(rt: Runtime, name: str) -> JsonObject:
    """Return the input schema of a tool, also if no surface offers it; empty if there is no such tool."""
    found = rt.inspection.tool(name)
    contract = None if found is None else found.tool.declaration.input_contract
    return {} if contract is None else contract.model_input_schema or {}


def _interrupt_handler(rt: Runtime, terminal: Terminal) -> Callable[[], None]:
    """Return a handler that cancels the call at the first Ctrl-C and exits at the second."""
    is_canceling = False

    def interrupt() -> None:
        nonlocal is_canceling
        if terminal.is_editor_open:
            return
        if is_canceling:
            hint("\nexited without waiting; the tool may still have been running", "yellow")
            os._exit(INTERRUPTED)
        is_canceling = True
        terminal.console.print("\nstopping … [dim](Ctrl-C again exits at once)[/]", style="yellow", highlight=False)
        rt.calls.interrupt(blocking=True)

    return interrupt


def _cancellation_outcome(invocation: ToolInvocation) -> str | None:
    """Return what a cancellation achieved; none if there was none."""
    asked = invocation.cancellation
    if asked is None:
        return None
    if invocation.status is not InvocationStatus.CANCELED:
        is_unsupported = asked.message == UNSUPPORTED
        return "the tool cannot be canceled, and ran to its end" if is_unsupported else "the tool had already ended"
    if not any(step.status is InvocationStatus.RUNNING for step in invocation.status_transitions or ()):
        return "canceled before the tool started"
    if asked.cancel_acknowledged is not None:
        return "the tool stopped; effects until then remain"
    return "the tool did not stop in time and was abandoned; it may still be running"


class CallMonitor:
    """Prints the progress of a runtime's calls, and asks the user their questions.

    Attributes:
        parked: set when a question is left open for another process.
    """

    def __init__(self, rt: Runtime, terminal: Terminal, request: CommandLineCall) -> None:
        """Start with `running`."""
        self.parked = asyncio.Event()
        self._rt = rt
        self._terminal = terminal
        self._request = request
        self._bar: Progress | None = None
        self._own_calls: set[InvocationId] = set()
        self._asked_prompts: set[str] = set()

    @asynccontextmanager
    async def running(self) -> AsyncGenerator[None]:
        """Follow events and prompts within this context; print what has been reported before it ends."""
        tasks = [asyncio.ensure_future(self._follow_events())]
        if self._rt.sources.names:
            tasks.append(asyncio.ensure_future(self._poll_prompts()))
        await asyncio.sleep(0)
        try:
            yield
        finally:
            await asyncio.sleep(0)
            for task in tasks:
                task.cancel()
            self._hide_bar()

    async def _follow_events(self) -> None:
        async for _, event in self._rt.journal.events(-1):
            self._own_calls.update(self._rt.calls.open_ids())
            if self._request.is_durable and event.invocation_id not in self._own_calls:
                continue  # another process writes to the same file
            if event.event_type is EventType.PROGRESS:
                self._print_progress(event)
            elif event.event_type is EventType.CANCEL_FAILED:
                hint("this tool cannot be canceled; waiting for its end", "yellow")
            elif event.event_type is EventType.PERMISSION_REQUESTED and (event.data or {}).get("prompted"):
                self._hide_bar()
                await self._ask_question_of(event)

    async def _poll_prompts(self) -> None:
        while True:
            await asyncio.sleep(PROMPT_POLL_S)
            self._own_calls.update(self._rt.calls.open_ids())
            for prompt in await self._rt.prompts.list():
                if prompt.invocation_id in self._own_calls and prompt.prompt_id not in self._asked_prompts:
                    self._asked_prompts.add(prompt.prompt_id)
                    await self._ask_prompt(prompt)

    async def _ask_prompt(self, prompt: Prompt) -> None:
        self._hide_bar()
        print_prompt(self._terminal.console, prompt)
        if prompt.kind is PromptKind.CHOICE and not (
            self._request.is_interactive and await ask_prompt(self._rt, self._terminal, prompt)
        ):
            arguments = self._request.options.arguments
            hint(f"to answer: {program_name()} approvals answer {prompt.prompt_id} 1{arguments}")

    async def _ask_question_of(self, event: ToolEvent) -> None:
        # The ids of a question and of the decision to ask it are made of the same characters.
        suffix = str((event.data or {}).get("decision_id")).partition("_")[2]
        question = await self._rt.approvals.get(ApprovalId(f"apr_{suffix}"))
        if question is None or question.invocation_id not in self._rt.calls.open_ids():
            return
        while self._request.is_interactive:
            shown = shown_question(question)
            print_question(self._terminal.console, shown)
            answer = await ask_approval(self._terminal, shown, can_skip=self._request.is_durable)
            if isinstance(answer, Skipped):
                break
            outcome = await self._rt.approvals.decide(question, answer, by=self._request.options.by)
            if not isinstance(outcome, Refused):
                return
            print_error("refused", outcome.message)
        self.parked.set()

    def _print_progress(self, event: ToolEvent) -> None:
        data = event.data or {}
        percent, message = data.get("percent"), printable(str(data.get("message") or data.get("step") or ""))
        if not isinstance(percent, int | float) or not self._terminal.console.is_terminal:
            share = f"{percent:3.0f} % " if isinstance(percent, int | float) else ""
            hint(share + message)
            return
        if self._bar is None:
            message_column = TextColumn("{task.description}", markup=False)
            columns = (BarColumn(), TaskProgressColumn(), TimeElapsedColumn(), message_column)
            self._bar = Progress(*columns, console=self._terminal.console, transient=True)
            self._bar.add_task("", total=100.0)
            self._bar.start()
        self._bar.update(self._bar.task_ids[0], completed=float(percent), description=message)

    def _hide_bar(self) -> None:
        if self._bar is not None:
            self._bar.stop()
            self._bar = None
