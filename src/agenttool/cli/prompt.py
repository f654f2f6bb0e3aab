"""Questions at the terminal: approval requests, and prompts of providers, shown and answered by the user."""

import asyncio
import json
import os
import shlex
import subprocess
import sys
import tempfile
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path

from rich.console import Console
from rich.text import Text

from agenttool.cli.format import indented_json, print_json, rough_duration
from agenttool.cli.output import figures, hint, plain_table, print_blocks, print_error, print_text
from agenttool.codec import json_bytes, parse_object, to_json
from agenttool.config import environment
from agenttool.config.program import program_name
from agenttool.errors import ConfigError, RecordError
from agenttool.history.printable import one_line, printable
from agenttool.policy.approvals import Allow, Answer, Deny, Edit, Question, Remember
from agenttool.policy.rules import parse_timestamp
from agenttool.ports.deferred import Prompt, PromptKind
from agenttool.records import Json, JsonObject, Timestamp
from agenttool.runtime import Runtime
from agenttool.server.messages import ApiReply
from agenttool.world import SystemClock

DEFAULT_CHOICE = "default"
"""The word that picks the default of a provider's prompt."""

SHOWN_LENGTH = 16
"""How many digits of the digest of a question are printed, and needed to answer it."""

_READ_SIZE = 65_536
_WORDS = ("y", "yes", "n", "no", "s", "skip")


class Terminal:
    """Reads lines from the standard input without blocking the event loop, so that Ctrl-C works at once.

    Attributes:
        console: the standard error; the standard output is for results.
        is_editor_open: an editor uses the terminal, and Ctrl-C belongs to the editor.
    """

    def __init__(self) -> None:
        self.console = Console(stderr=True)
        self.is_editor_open = False
        self._typed = b""

    @property
    def is_interactive(self) -> bool:
        """Whether a user can answer questions here."""
        return self.console.is_terminal and sys.stdin.isatty()

    async def read_line(self, prompt: str) -> str | None:
        """Ask for a line; return none at the end of the input (Ctrl-D)."""
        self.console.print(prompt, end=" ", highlight=False)
        loop, source = asyncio.get_running_loop(), sys.stdin.fileno()
        while b"\n" not in self._typed:
            ready = loop.create_future()
            loop.add_reader(source, lambda ready=ready: ready.done() or ready.set_result(None))
            try:
                await ready
            finally:
                loop.remove_reader(source)
            piece = os.read(source, _READ_SIZE)
            if not piece:
                self.console.print()
                return None
            self._typed += piece
        line, _, self._typed = self._typed.partition(b"\n")
        return line.decode(errors="replace").strip()

    async def edit(self, text: str) -> str | None:
        """Return the text as edited in the user's editor, or typed as one line; none if it is unchanged."""
        chosen = environment(("VISUAL", "EDITOR"))
        editor = chosen.get("VISUAL") or chosen.get("EDITOR")
        if not editor:
            return await self.read_line("[bold]the whole input as JSON[/] [dim](empty: no change)[/]:") or None
        self.is_editor_open = True
        try:
            return await asyncio.to_thread(_run_editor, shlex.split(editor), text)
        except (OSError, ValueError) as error:
            print_error("no_editor", f"cannot run the editor {editor!r}: {error}; set VISUAL or EDITOR to another")
            return None
        finally:
            self.is_editor_open = False


def _run_editor(editor: list[str], text: str) -> str | None:
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder, "input.json")
        file.write_text(text, encoding="utf-8")
        status = subprocess.run([*editor, str(file)], check=False).returncode  # noqa: S603 -- the user's own editor
        changed = file.read_text(encoding="utf-8")
    return None if status or changed == text else changed


def now() -> datetime:
    """Return the current time."""
    return datetime.fromtimestamp(SystemClock.now_ns() / 1e9, UTC)


@dataclass(frozen=True, slots=True)
class Skipped:
    """The user left the question open; with `all`, the following ones too."""

    all: bool = False


class ShownQuestion(ApiReply, kw_only=True, omit_defaults=True):
    """A call that waits for an answer, as a store or a server shows it."""

    approval_id: str
    invocation_id: str
    tool_id: str
    tool_name: str
    input: Json
    reason: str | None
    suggested_updates: list[JsonObject]
    asked_at: str
    expires_at: str
    input_digest: str
    shown_digest: str
    actor: str | None = None
    why_not: str | None = None

    @property
    def rules(self) -> list[tuple[JsonObject, str]]:
        """The suggested rules, each with its text: TOML for a settings file where that is possible, else JSON."""
        found = ((each.get("rule"), each.get("value")) for each in self.suggested_updates)
        return [
            (rule, text.strip() if isinstance(text, str) else json_bytes(rule).decode())
            for rule, text in found
            if isinstance(rule, dict)
        ]

    def remember(self, number: int, feedback: str | None = None) -> Remember:
        """Return the answer that allows the call and adds a suggested rule.

        Raises:
            ConfigError: there is no such rule.
        """
        if not 1 <= number <= len(self.rules):
            raise ConfigError(f"there is no suggestion {number}; use a number from 1 to {len(self.rules)}")
        return Remember(rule=self.rules[number - 1][0], feedback=feedback)


def shown_question(question: Question) -> ShownQuestion:
    """Return a question of a runtime as it is shown."""
    return ShownQuestion.of(
        question,
        input=question.shown,
        reason=question.verdict.reason.message,
        suggested_updates=[to_json(update) for update in question.suggested_updates],
        actor=None,
        why_not=None,
    )


def shown_mark(digest: str) -> str:
    """Return the first digits of the digest of what was shown, for `answer APR_ID allow --shown DIGEST`."""
    return digest.partition(":")[2][:SHOWN_LENGTH]


def was_shown(digest: str, mark: str | None) -> bool:
    """Return whether digits, at least as many as are printed, begin the digest of what is shown now."""
    digits = (mark or "").rpartition(":")[2]
    return len(digits) >= SHOWN_LENGTH and digest.partition(":")[2].startswith(digits)


def unseen_text(digest: str, mark: str | None) -> str:
    """Return why an answer about something that was not shown is rejected, and how to answer."""
    found = "an answer needs the digest of what you saw" if mark is None else f"you saw another one: {mark!r}"
    return f"{found}; read it again, then answer with --shown {shown_mark(digest)}"


@dataclass(slots=True)
class ToolBacklog:
    """The open questions of one tool: how many, the oldest, and when the first expires."""

    tool_name: str
    waiting: int
    oldest: str
    asked_at: str
    expires_at: str


def print_backlog(questions: Iterable[ShownQuestion]) -> None:
    """Print how many questions wait, tool by tool, most first. The oldest question comes first."""
    found: dict[str, ToolBacklog] = {}
    for each in questions:
        first = ToolBacklog(each.tool_name, 0, each.approval_id, each.asked_at, each.expires_at)
        backlog = found.setdefault(each.tool_name, first)
        backlog.waiting += 1
        backlog.expires_at = min(backlog.expires_at, each.expires_at)
    ordered = sorted(found.values(), key=lambda backlog: -backlog.waiting)
    for backlog in ordered:
        print_json(asdict(backlog))
    rows = ((f"{each.waiting:,}", each.tool_name, *age_and_expiry(each.asked_at, each.expires_at)) for each in ordered)
    table = plain_table(figures("waiting"), "tool", "oldest", "", rows=rows)
    print_blocks([table if ordered else "nothing waits for an answer"])


def print_question(console: Console, question: ShownQuestion) -> None:
    """Print an approval request: its input, its reason, rules that would allow it, and its age."""
    actor = f" for {question.actor}" if question.actor else ""
    what = f"needs approval{actor} to run with this input:"
    console.print(Text(printable(question.tool_name), style="bold"), Text(printable(what)))
    console.print(indented_json(question.input), soft_wrap=True)
    reason = (question.reason or "no rule allows it").rstrip(".")
    console.print(Text(f"Reason: {printable(reason)}."))
    for number, (_, rule) in enumerate(question.rules, 1):
        console.print(Text("A rule that would allow it from now on" + (f" ({number})" if number > 1 else "") + ":"))
        for line in rule.split("\n"):
            console.print(Text(f"  {printable(line)}", style="dim"), soft_wrap=True)
    age, expiry = age_and_expiry(question.asked_at, question.expires_at)
    mark = shown_mark(question.shown_digest)
    print_text(f"{question.approval_id} · asked {age} · {expiry} · shown {mark}", "dim", console)
    if question.why_not:
        print_text(f"You cannot answer: {question.why_not}", "yellow", console)


def age_and_expiry(asked_at: str, expires_at: str) -> tuple[str, str]:
    """Return how long ago a question was asked, and when it expires."""
    age = (now() - parse_timestamp(Timestamp(asked_at))).total_seconds()
    left = (parse_timestamp(Timestamp(expires_at)) - now()).total_seconds()
    return f"{rough_duration(age)} ago", f"expires in {rough_duration(left)}" if left > 0 else "expired"


async def ask_approval(terminal: Terminal, question: ShownQuestion, *, can_skip: bool) -> Answer | Skipped:
    """Ask until the user answers; the end of the input skips the question, or denies it where it cannot be skipped."""
    choices = ["[bold]y[/]es", "[bold]n[/]o", "[bold]e[/]dit"]
    choices += ["[bold]r[/]emember"] if question.rules else []
    choices += ["[bold]s[/]kip"] if can_skip else []
    while True:
        line = await terminal.read_line(f"Run it? {' · '.join(choices)}:")
        if line is None:
            return Skipped(all=True) if can_skip else Deny(message="no answer at the terminal")
        word, _, rest = line.partition(" ")
        try:
            answer = await _parse_reply(terminal, question, word.lower(), rest.strip(), can_skip=can_skip)
        except (ConfigError, RecordError) as error:
            print_error("unusable", str(error))
            continue
        if answer is not None:
            return answer


async def _parse_reply(
    terminal: Terminal, question: ShownQuestion, word: str, rest: str, *, can_skip: bool
) -> Answer | Skipped | None:
    """Return the answer for a word and the text after it; none if the user must be asked again."""
    answers: dict[str, Answer | Skipped] = {"y": Allow(feedback=rest or None), "n": Deny(message=rest or None)}
    if can_skip:
        answers["s"] = Skipped()
    if word[:1] in answers and word in _WORDS:
        return answers[word[:1]]
    if word in ("r", "remember"):
        return question.remember(int(rest) if rest.isdecimal() else 1)
    if word in ("e", "edit"):
        text = rest or await terminal.edit(json.dumps(question.input, indent=2, ensure_ascii=False) + "\n")
        return None if text is None else Edit(input=parse_object(text, what="an edited input"))
    hint(
        "y runs it as shown; n denies it, and the model reads the text after it; e changes the input; "
        "r runs it and allows what the rule covers from now on" + ("; s leaves it open" if can_skip else "")
    )
    return None


def prompt_json(prompt: Prompt) -> JsonObject:
    """Return a provider's prompt as one JSON object."""
    return {
        "prompt_id": prompt.prompt_id,
        "invocation_id": prompt.invocation_id,
        "tool_name": prompt.tool_name,
        "thread_id": prompt.thread_id,
        "kind": prompt.kind.value,
        "message": prompt.message,
        "choices": [*prompt.choices],
        "default": prompt.default,
        "url": prompt.url,
    }


def print_prompt(console: Console, prompt: Prompt) -> None:
    """Print a provider's prompt; its text is untrusted and stays on one line each."""
    print_text(f"{prompt.prompt_id}  {one_line(prompt.tool_name)} asks", "bold", console)
    print_text(f"  {one_line(prompt.message)}", None, console)
    for number, choice in enumerate(prompt.choices, 1):
        mark = "  (default)" if number - 1 == prompt.default else ""
        print_text(f"  {number}  {one_line(choice)}{mark}", None, console)
    if prompt.url is not None:
        print_text(f"  open {one_line(prompt.url)}", None, console)


def parse_choice(word: str) -> int | None:
    """Return the index of a choice from its number; none for the default.

    Raises:
        ConfigError: it is not a number.
    """
    if word == DEFAULT_CHOICE:
        return None
    if not word.isdecimal():
        raise ConfigError(f"a prompt is answered `answer PRM_ID 1` or `answer PRM_ID default`, got {word!r}")
    return int(word) - 1


async def answer_prompt(rt: Runtime, prompt_id: str, choice: int | None) -> bool:
    """Answer a provider's prompt and print the outcome; return whether the answer was accepted."""
    chosen = await rt.prompts.choose(prompt_id, choice)
    hint(f"{prompt_id}: {chosen.message}", "green" if chosen.is_taken else "red")
    return chosen.is_taken


async def ask_prompt(rt: Runtime, terminal: Terminal, prompt: Prompt) -> bool:
    """Ask the user for a choice; return whether they gave a line."""
    word = await terminal.read_line(f"1 to {len(prompt.choices)}, or Enter for the default:")
    if word is None:
        return False
    try:
        await answer_prompt(rt, prompt.prompt_id, parse_choice(word or DEFAULT_CHOICE))
    except ConfigError as error:
        print_error("unusable", str(error))
    return True


async def ask_open_prompts(rt: Runtime, terminal: Terminal, store_arguments: str) -> int:
    """Print every open prompt, ask the user if there is one, and return how many there were."""
    found = await rt.prompts.list()
    console = terminal.console if terminal.is_interactive else Console()
    for prompt in found:
        console.print()
        print_prompt(console, prompt)
        is_choice = prompt.kind is PromptKind.CHOICE
        if terminal.is_interactive and is_choice and not await ask_prompt(rt, terminal, prompt):
            break
    if any(prompt.kind is PromptKind.CHOICE for prompt in found) and not terminal.is_interactive:
        hint(f"\nto answer: {program_name()} approvals answer PRM_ID 1{store_arguments}")
    return len(found)
