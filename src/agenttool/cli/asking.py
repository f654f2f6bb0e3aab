"""A question as a person sees it, and the answers they can give."""

import json
from dataclasses import dataclass
from datetime import datetime

from rich.console import Console
from rich.text import Text

from agenttool.cli.terminal import Terminal, indented, pretty, printable
from agenttool.codec import json_bytes, parse_object, to_json
from agenttool.errors import ConfigError, RecordError
from agenttool.policy.approvals import Allow, Answer, Deny, Edit, Question, Remember
from agenttool.policy.rules import parse_timestamp
from agenttool.records import JsonObject

_MINUTE, _HOUR, _DAY = 60, 3600, 86_400


@dataclass(frozen=True, slots=True)
class Left:
    """The question stays open; `all` says that the others are not asked either."""

    all: bool = False


def rules_offered(question: Question) -> list[JsonObject]:
    """Give the rules that would allow the call from now on, the smallest first."""
    return [update.rule for update in question.suggested_updates if isinstance(update.rule, dict)]


def remembered(question: Question, number: int) -> Remember:
    """Take one of the rules that were offered, counted from 1.

    Raises:
        ConfigError: there is none of that number.
    """
    rules = rules_offered(question)
    if not rules:
        raise ConfigError("no rule would settle this question, so there is nothing to remember; answer allow or deny")
    if not 1 <= number <= len(rules):
        raise ConfigError(f"there is no suggestion {number}; use a number from 1 to {len(rules)}")
    return Remember(rule=rules[number - 1])


def told_of(question: Question) -> JsonObject:
    """Write a question down for a program."""
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
    }


def show(console: Console, question: Question, now: datetime) -> None:
    """Say what will run, why it asks, for how long, and what would keep it from asking again."""
    name = Text(printable(question.tool_name), style="bold")
    console.print(name, Text("wants to run with"))
    console.print(indented(pretty(question.shown)), soft_wrap=True)
    why = printable((question.verdict.reason.message or "nobody has allowed it").rstrip("."))
    console.print(Text(f"It asks because {why}."))
    for number, rule in enumerate(_rule_texts(question), 1):
        console.print(Text("A rule that would allow it from now on" + (f" ({number})" if number > 1 else "") + ":"))
        console.print(indented(Text(printable(rule), style="dim")), soft_wrap=True)
    age = (now - parse_timestamp(question.asked_at)).total_seconds()
    left = (parse_timestamp(question.expires_at) - now).total_seconds()
    until = f"expires in {span(left)}" if left > 0 else "too late to answer"
    console.print(Text(f"{question.approval_id} · asked {span(age)} ago · {until}", style="dim"), soft_wrap=True)


def _rule_texts(question: Question) -> list[str]:
    """Spell the rules for a person: as for a settings file where they can stand in one."""
    return [
        update.value.strip() if isinstance(update.value, str) else json_bytes(update.rule).decode()
        for update in question.suggested_updates
        if isinstance(update.rule, dict)
    ]


def span(seconds: float) -> str:
    """Say how long, as roughly as a person would."""
    for unit, size in (("d", _DAY), ("h", _HOUR), ("min", _MINUTE)):
        if seconds >= 2 * size or (seconds >= size and unit == "min"):
            return f"{seconds / size:.0f} {unit}"
    return f"{max(seconds, 0):.0f} s"


async def ask(terminal: Terminal, question: Question, *, can_leave: bool) -> Answer | Left:
    """Ask until there is an answer; the end of the input leaves the question open, or refuses where that cannot be."""
    choices = ["[bold]y[/]es", "[bold]n[/]o", "[bold]e[/]dit"]
    choices += ["[bold]r[/]emember"] if rules_offered(question) else []
    choices += ["[bold]s[/]kip"] if can_leave else []
    while True:
        said = await terminal.line(f"Run it? {' · '.join(choices)}:")
        if said is None:
            return Left(all=True) if can_leave else Deny(message="nobody answered at the terminal")
        word, _, rest = said.partition(" ")
        try:
            answer = await _answer(terminal, question, word.lower(), rest.strip(), can_leave=can_leave)
        except (ConfigError, RecordError) as error:
            terminal.console.print(printable(str(error)), style="red", markup=False, highlight=False)
            continue
        if answer is not None:
            return answer


async def _answer(
    terminal: Terminal, question: Question, word: str, rest: str, *, can_leave: bool
) -> Answer | Left | None:
    answers: dict[str, Answer | Left] = {"y": Allow(feedback=rest or None), "n": Deny(message=rest or None)}
    if can_leave:
        answers["s"] = Left()
    if word[:1] in answers and word in _WORDS:
        return answers[word[:1]]
    if word in ("r", "remember"):
        return remembered(question, int(rest) if rest.isdecimal() else 1)
    if word in ("e", "edit"):
        text = rest or await terminal.edited(json.dumps(question.shown, indent=2, ensure_ascii=False) + "\n")
        return None if text is None else Edit(updated_input=parse_object(text, what="an edited input"))
    terminal.console.print(
        "y runs it as shown; n refuses, and words after it are told to the model; e changes the input; "
        "r runs it and asks no more for what the rule covers" + ("; s leaves it open" if can_leave else ""),
        style="dim",
    )
    return None


_WORDS = ("y", "yes", "n", "no", "s", "skip")
