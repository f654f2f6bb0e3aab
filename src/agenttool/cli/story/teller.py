"""Who tells the story: to a person in the terminal, or to a program in JSON Lines."""

from collections.abc import Sequence
from typing import Protocol

from rich.console import Console
from rich.json import JSON
from rich.padding import Padding
from rich.rule import Rule
from rich.table import Table
from rich.text import Text

from agenttool.codec import sorted_json
from agenttool.records import Json, JsonObject


class Teller(Protocol):
    """What a chapter may do. Every claim is checked as it is made; the ones that do not hold are in `broken`."""

    claims: list[str]
    broken: list[str]

    def chapter(self, title: str) -> None:
        """Begin a chapter."""
        ...

    def say(self, sentence: str) -> None:
        """Say something."""
        ...

    def show(self, title: str, value: JsonObject) -> None:
        """Show a record or a part of one."""
        ...

    def table(self, title: str, columns: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
        """Show a table."""
        ...

    def claim(self, claim: str, *, holds: bool) -> None:
        """Make a claim, and say whether it holds."""
        ...


class TerminalTeller:
    """Tells it to a person."""

    def __init__(self, console: Console) -> None:
        """Take the terminal to write to."""
        self.claims: list[str] = []
        self.broken: list[str] = []
        self._console = console
        self._chapters = 0

    def chapter(self, title: str) -> None:
        """Begin a chapter with a numbered line."""
        self._chapters += 1
        self._console.print()
        self._console.print(Rule(f"[bold cyan]{self._chapters} · {title}", align="left", style="dim"))

    def say(self, sentence: str) -> None:
        """Write a sentence; one that begins with blanks is indented as a whole."""
        words = sentence.lstrip(" ")
        indent = len(sentence) - len(words)
        self._console.print(Padding(words, (0, 0, 0, indent)) if indent else words, highlight=False)

    def show(self, title: str, value: JsonObject) -> None:
        """Write JSON, indented below its title."""
        self._console.print(f"[dim]{title}[/]")
        self._console.print(Padding(JSON.from_data(value, indent=2), (0, 0, 0, 2)))

    def table(self, title: str, columns: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
        """Draw a table that fits the terminal, below its title, which may be wider than the table."""
        self._console.print(Padding(Text(title, style="dim"), (0, 0, 0, 2)))
        table = Table(*columns, box=None, pad_edge=False)
        table.columns[0].style = "cyan"
        for row in rows:
            table.add_row(*(Text(cell) for cell in row))
        self._console.print(Padding(table, (0, 0, 0, 2)))

    def claim(self, claim: str, *, holds: bool) -> None:
        """Tick or cross a claim."""
        (self.claims if holds else self.broken).append(claim)
        self._console.print(f"[green]✓[/] {claim}" if holds else f"[bold red]✗ {claim}[/]", highlight=False)


class JsonTeller:
    """Tells it to a program, one JSON object a line."""

    def __init__(self, console: Console) -> None:
        """Take where to write to."""
        self.claims: list[str] = []
        self.broken: list[str] = []
        self._console = console

    def chapter(self, title: str) -> None:
        """Write the title."""
        self._line({"type": "chapter", "title": title})

    def say(self, sentence: str) -> None:
        """Write a sentence without its markup."""
        self._line({"type": "sentence", "text": Text.from_markup(sentence).plain})

    def show(self, title: str, value: JsonObject) -> None:
        """Write a value."""
        self._line({"type": "value", "title": title, "value": value})

    def table(self, title: str, columns: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
        """Write the rows as objects."""
        told: list[Json] = [dict(zip(columns, row, strict=True)) for row in rows]
        self._line({"type": "table", "title": title, "rows": told})

    def claim(self, claim: str, *, holds: bool) -> None:
        """Write a claim and whether it holds."""
        (self.claims if holds else self.broken).append(claim)
        self._line({"type": "claim", "claim": Text.from_markup(claim).plain, "holds": holds})

    def _line(self, value: JsonObject) -> None:
        self._console.file.write(sorted_json(value).decode() + "\n")
