"""Read the option `approve`: a function that answers questions, `wait` or `deny`."""

import logging
import shlex
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Literal, TypeAlias

from agenttool.adapters.python.threads import runner_of
from agenttool.call.services import OpenQuestions
from agenttool.config import Config, rule_files
from agenttool.config.program import program_name
from agenttool.config.writer import append_tables
from agenttool.errors import ConfigError
from agenttool.policy.approvals import Answer, Question
from agenttool.policy.rule_settings import rule_toml
from agenttool.records import JsonObject

Decision: TypeAlias = Answer | bool | str
"""What an approver returns; anything else denies the call."""

Approval: TypeAlias = Callable[[Question], Decision | Awaitable[Decision]] | Literal["wait", "deny"]
"""The option `approve` of `Runtime.open`."""

log = logging.getLogger("agenttool.approvals")


class FunctionApprover:
    """Asks a function of the program: a coroutine function in the event loop, a plain function in a thread.

    Attributes:
        name: the claim by which its answers are recorded.
    """

    def __init__(self, function: Callable[[Question], object], name: str) -> None:
        self.name = name
        self._run = runner_of(function)

    async def __call__(self, question: Question) -> object:
        """Return the answer of the function."""
        return await self._run(question)


@dataclass(frozen=True, slots=True)
class SettingsFiles:
    """The settings files of a runtime, as places of rules: the named one, or those of the working directory."""

    named: str | Path | None = None

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the files."""
        return tuple(rule_files(self.named))

    def append(self, name: str, rule: JsonObject) -> None:
        """Add a rule to a file; the file is created if it does not exist.

        Raises:
            ConfigError: the file cannot be written, or the rule has no form in TOML.
        """
        file = rule_files(self.named)[name]
        try:
            text = rule_toml(rule)
        except ValueError as error:
            raise ConfigError(f"the rule cannot be added to {str(file)!r}: {error}; use save='store'") from error
        append_tables(file, text)


def is_answered(approve: Approval | None, *, setting: bool | None, is_durable: bool) -> bool:
    """Return whether questions can be answered; if not, their calls are denied.

    Without the option, the setting decides. Without both, questions of a durable store can be answered later.

    Raises:
        ConfigError: the option is neither a function nor one of the words.
    """
    if approve is None:
        return is_durable if setting is None else setting
    if approve not in ("wait", "deny") and not callable(approve):
        raise ConfigError(f"approve must be a function, 'wait' or 'deny', got {approve!r}; use one of them")
    return approve != "deny"


def make_questions(approve: Approval | None, store: Path | None, settings: Config) -> OpenQuestions:
    """Return the questions of a runtime, with the approver of the program.

    Without the option, every question is logged with the command that answers it: the program may not expect calls
    that wait.
    """
    files = SettingsFiles(settings.named_file)
    if callable(approve):
        name = getattr(approve, "__qualname__", type(approve).__qualname__)
        return OpenQuestions(approve=FunctionApprover(approve, f"the function {name}"), rule_files=files)
    notify = None if approve is not None or store is None else partial(_warn, store)
    return OpenQuestions(notify=notify, rule_files=files)


def _warn(store: Path, question: Question) -> None:
    name, place = question.tool_name, shlex.quote(str(store.resolve()))
    command = f"{program_name()} approvals --store {place}".replace("\n", " ")
    # An answer needs the digest of what was shown, so the command shows the question first.
    log.warning("%s waits for %s (%s); to answer: %s", name, question.approval_id, question.reason, command)
