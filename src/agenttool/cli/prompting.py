"""What running calls need from a person, in the terminal: shown, asked, answered by a number."""

import typer
from rich.console import Console

from agenttool.assemble import Runtime
from agenttool.cli.terminal import Terminal, in_one_line
from agenttool.codec import json_bytes
from agenttool.errors import ConfigError
from agenttool.ports.later import Prompt, PromptKind
from agenttool.records import JsonObject

TURN_AWAY = "default"


def is_prompt(words: list[str]) -> bool:
    """Tell whether the words of the command answer a prompt, and no approval."""
    return len(words) > 1 and words[1].startswith("prm_")


def number_in(words: list[str]) -> int | None:
    """Read which choice is meant, counted from 1; none for the default.

    Raises:
        ConfigError: it is no number.
    """
    word = words[2] if len(words) == 3 and words[0] == "answer" else ""  # noqa: PLR2004 -- answer PRM_ID N
    if word == TURN_AWAY:
        return None
    if not word.isdecimal():
        raise ConfigError(
            "a prompt is answered `answer PRM_ID 1`, by the number of a choice, or `answer PRM_ID default`"
        )
    return int(word) - 1


async def answer_prompt(rt: Runtime, words: list[str], console: Console) -> bool:
    """Answer one prompt; tell whether the answer counts."""
    chosen = await rt.choose(words[1], number_in(words))
    style = "green" if chosen.is_taken else "red"
    console.print(f"{words[1]}: {chosen.message}", style=style, markup=False, highlight=False, soft_wrap=True)
    return chosen.is_taken


async def ask_prompts(rt: Runtime, terminal: Terminal, where: str) -> int:
    """Show every open prompt; where somebody is there, ask them. Tells how many there were; `where` names the store."""
    found = await rt.prompts()
    console = terminal.console if terminal.has_person else Console()
    for prompt in found:
        console.print()
        show_prompt(console, prompt)
        if terminal.has_person and prompt.kind is PromptKind.CHOICE and not await ask_prompt(rt, terminal, prompt):
            break
    if any(prompt.kind is PromptKind.CHOICE for prompt in found) and not terminal.has_person:
        hint = f"\nto answer: agenttool approvals answer PRM_ID 1{where}"
        terminal.console.print(hint, style="dim", highlight=False, soft_wrap=True)
    return len(found)


async def ask_prompt(rt: Runtime, terminal: Terminal, prompt: Prompt) -> bool:
    """Ask the person at the terminal what they choose; tell whether they said anything."""
    word = await terminal.line(f"1 to {len(prompt.choices)}, or Enter for the default:")
    if word is None:
        return False
    try:
        await answer_prompt(rt, ["answer", prompt.prompt_id, word or TURN_AWAY], terminal.console)
    except ConfigError as error:
        terminal.console.print(str(error), style="red", markup=False, highlight=False)
    return True


async def print_prompts(rt: Runtime) -> None:
    """Print the prompts as JSON Lines."""
    for prompt in await rt.prompts():
        told: JsonObject = {
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
        typer.echo(json_bytes(told).decode())


def show_prompt(console: Console, prompt: Prompt) -> None:
    """Show a prompt; its words are a stranger's, and nothing in them may move the cursor."""
    console.print(
        f"{prompt.prompt_id}  {in_one_line(prompt.tool_name)} asks", style="bold", markup=False, highlight=False
    )
    console.print(f"  {in_one_line(prompt.message)}", markup=False, highlight=False, soft_wrap=True)
    for number, choice in enumerate(prompt.choices, 1):
        mark = "  (default)" if number - 1 == prompt.default else ""
        console.print(f"  {number}  {in_one_line(choice)}{mark}", markup=False, highlight=False, soft_wrap=True)
    if prompt.url is not None:
        console.print(f"  open {in_one_line(prompt.url)}", markup=False, highlight=False, soft_wrap=True)
