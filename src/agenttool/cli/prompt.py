"""Questions at the terminal: approval requests, and prompts of providers, shown and answered by the user."""

import asyncio
import json
import os
import shlex
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from rich.console import Console
from rich.text import Text

from agenttool.cli.format import indented_json, rough_duration
from agenttool.cli.output import print_text
from agenttool.codec import json_bytes, parse_object, to_json
from agenttool.config import environment
from agenttool.config.program import program_name
from agenttool.errors import ConfigError, RecordError
from agenttool.history.printable import one_line, printable
from agenttool.policy.approvals import (
    Allow,
    Answer,
    Deny,
    Edit,
    Question,
    RememberScope,
    remembering,
    suggested_rules,
)
from agenttool.policy.rules import parse_timestamp
from agenttool.ports.deferred import Prompt, PromptKind
from agenttool.records import Json, JsonObject, Timestamp
from agenttool.runtime import Runtime
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
            self.print_error(f"cannot run the editor {editor!r}: {error}; set VISUAL or EDITOR to another")
            return None
        finally:
            self.is_editor_open = False

    def print_error(self, message: str) -> None:
        """Print an error; the user is asked again."""
        print_text(self.console, printable(message, keep="\n"), "red")

    def print_hint(self, message: str) -> None:
        """Print what the user can do next."""
        print_text(self.console, message, "dim")


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


def question_json(question: Question) -> JsonObject:
    """Return an approval request as one JSON object."""
    return {
        "approval_id": question.approval_id,
        "invocation_id": question.invocation_id,
        "tool_id": question.tool_id,
        "tool_name": question.tool_name,
        "input": question.shown,
        "reason": question.verdict.reason.message,
        "suggested_updates": [{**to_json(update)} for update in question.suggested_updates],
        "asked_at": question.asked_at,
        "expires_at": question.expires_at,
        "input_digest": question.input_digest,
        "shown_digest": question.shown_digest,
    }


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


def print_question(console: Console, question: JsonObject) -> None:
    """Print an approval request, given as `--json` prints it: input, reason, rules that would allow it, and age."""
    actor = f" for {question['actor']}" if question.get("actor") else ""
    what = f"needs approval{actor} to run with this input:"
    console.print(Text(printable(str(question["tool_name"])), style="bold"), Text(printable(what)))
    console.print(indented_json(question["input"]), soft_wrap=True)
    reason = str(question["reason"] or "no rule allows it").rstrip(".")
    console.print(Text(f"Reason: {printable(reason)}."))
    for number, rule in enumerate(_rule_texts(question["suggested_updates"]), 1):
        console.print(Text("A rule that would allow it from now on" + (f" ({number})" if number > 1 else "") + ":"))
        for line in rule.split("\n"):
            console.print(Text(f"  {printable(line)}", style="dim"), soft_wrap=True)
    age, expiry = age_and_expiry(str(question["asked_at"]), str(question["expires_at"]))
    mark = shown_mark(str(question["shown_digest"]))
    print_text(console, f"{question['approval_id']} · asked {age} · {expiry} · shown {mark}", "dim")


def age_and_expiry(asked_at: str, expires_at: str) -> tuple[str, str]:
    """Return how long ago a question was asked, and when it expires."""
    age = (now() - parse_timestamp(Timestamp(asked_at))).total_seconds()
    left = (parse_timestamp(Timestamp(expires_at)) - now()).total_seconds()
    return f"{rough_duration(age)} ago", f"expires in {rough_duration(left)}" if left > 0 else "expired"


def _rule_texts(updates: Json) -> Iterator[str]:
    """Yield the suggested rules: as TOML for a settings file where that is possible, else as JSON."""
    for update in updates if isinstance(updates, list) else ():
        if isinstance(update, dict) and isinstance(rule := update.get("rule"), dict):
            text = update.get("value")
            yield text.strip() if isinstance(text, str) else json_bytes(rule).decode()


async def ask_approval(terminal: Terminal, question: Question, *, can_skip: bool) -> Answer | Skipped:
    """Ask until the user answers; the end of the input skips the question, or denies it where it cannot be skipped."""
    choices = ["[bold]y[/]es", "[bold]n[/]o", "[bold]e[/]dit"]
    choices += ["[bold]r[/]emember"] if suggested_rules(question) else []
    choices += ["[bold]s[/]kip"] if can_skip else []
    while True:
        line = await terminal.read_line(f"Run it? {' · '.join(choices)}:")
        if line is None:
            return Skipped(all=True) if can_skip else Deny(message="no answer at the terminal")
        word, _, rest = line.partition(" ")
        try:
            answer = await _parse_reply(terminal, question, word.lower(), rest.strip(), can_skip=can_skip)
        except (ConfigError, RecordError) as error:
            terminal.print_error(str(error))
            continue
        if answer is not None:
            return answer


async def _parse_reply(
    terminal: Terminal, question: Question, word: str, rest: str, *, can_skip: bool
) -> Answer | Skipped | None:
    """Return the answer for a word and the text after it; none if the user must be asked again."""
    answers: dict[str, Answer | Skipped] = {"y": Allow(feedback=rest or None), "n": Deny(message=rest or None)}
    if can_skip:
        answers["s"] = Skipped()
    if word[:1] in answers and word in _WORDS:
        return answers[word[:1]]
    if word in ("r", "remember"):
        return remembering(question, Allow(), int(rest) if rest.isdecimal() else 1, RememberScope.STORE, ())
    if word in ("e", "edit"):
        text = rest or await terminal.edit(json.dumps(question.shown, indent=2, ensure_ascii=False) + "\n")
        return None if text is None else Edit(input=parse_object(text, what="an edited input"))
    terminal.print_hint(
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
    print_text(console, f"{prompt.prompt_id}  {one_line(prompt.tool_name)} asks", "bold")
    print_text(console, f"  {one_line(prompt.message)}")
    for number, choice in enumerate(prompt.choices, 1):
        mark = "  (default)" if number - 1 == prompt.default else ""
        print_text(console, f"  {number}  {one_line(choice)}{mark}")
    if prompt.url is not None:
        print_text(console, f"  open {one_line(prompt.url)}")


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


async def answer_prompt(rt: Runtime, console: Console, prompt_id: str, choice: int | None) -> bool:
    """Answer a provider's prompt and print the outcome; return whether the answer was accepted."""
    chosen = await rt.prompts.choose(prompt_id, choice)
    print_text(console, f"{prompt_id}: {chosen.message}", "green" if chosen.is_taken else "red")
    return chosen.is_taken


async def ask_prompt(rt: Runtime, terminal: Terminal, prompt: Prompt) -> bool:
    """Ask the user for a choice; return whether they gave a line."""
    word = await terminal.read_line(f"1 to {len(prompt.choices)}, or Enter for the default:")
    if word is None:
        return False
    try:
        await answer_prompt(rt, terminal.console, prompt.prompt_id, parse_choice(word or DEFAULT_CHOICE))
    except ConfigError as error:
        terminal.print_error(str(error))
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
        terminal.print_hint(f"\nto answer: {program_name()} approvals answer PRM_ID 1{store_arguments}")
    return len(found)
