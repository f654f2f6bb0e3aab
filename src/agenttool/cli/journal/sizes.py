"""What fills a journal: how many facts and bytes there are of each tool, and of what is about no call."""

from dataclasses import dataclass

from rich.table import Table
from rich.text import Text

from agenttool.cli.journal.words import plain_table, tool_name
from agenttool.ports.facts import Fact
from agenttool.records import JsonObject


@dataclass(slots=True)
class Share:
    """The part of a journal that one tool has.

    Attributes:
        calls: how many calls began in what was looked at.
        largest: the call, or the step, of the largest fact; nothing else says where to look.
    """

    calls: int = 0
    facts: int = 0
    size: int = 0
    largest: str = ""
    largest_size: int = 0

    def add(self, fact: Fact, size: int) -> None:
        """Count one more fact."""
        self.calls += fact.invocation_id is not None and fact.sequence == 0
        self.facts += 1
        self.size += size
        if size > self.largest_size:
            self.largest, self.largest_size = fact.invocation_id or fact.step.name, size


class Sizes:
    """Adds up facts, one after the other; memory grows with the number of tools."""

    def __init__(self) -> None:
        """Begin with none."""
        self.shares: dict[str, Share] = {}

    def add(self, fact: Fact, size: int) -> None:
        """Count one fact of so many bytes."""
        about = tool_name(fact.tool_id) or f"({fact.step.name.replace('_', ' ')})"
        self.shares.setdefault(about, Share()).add(fact, size)

    def told(self) -> list[JsonObject]:
        """Write them down for a program, the largest first."""
        return [
            {
                "about": about,
                "calls": share.calls,
                "facts": share.facts,
                "bytes": share.size,
                "largest": share.largest,
                "largest_bytes": share.largest_size,
            }
            for about, share in self._by_size()
        ]

    def table(self) -> Table:
        """Draw them for a person, the largest first."""
        table = plain_table("bytes", "calls", "facts", "about", "largest", header=True)
        for column in table.columns[:3]:
            column.justify, column.no_wrap = "right", True
        for about, share in self._by_size():
            figures = (f"{share.size:,}", f"{share.calls:,}", f"{share.facts:,}")
            largest = f"{share.largest_size:,} in {share.largest[-8:]}" if share.calls else f"{share.largest_size:,}"
            table.add_row(*figures, Text(about), Text(largest, style="dim"))
        total = [sum(each) for each in zip(*((s.size, s.calls, s.facts) for s in self.shares.values()), strict=True)]
        table.add_row(*(f"{each:,}" for each in total or (0, 0, 0)), Text("in all", style="bold"), "")
        return table

    def _by_size(self) -> list[tuple[str, Share]]:
        return sorted(self.shares.items(), key=lambda each: -each[1].size)
