"""What a replay came to: calls that would have gone another way, alike ones together, and totals."""

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TypeAlias

from rich.console import RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from agenttool.cli.findings import printable
from agenttool.cli.journal.words import heading, plain_table, short_id, style_of
from agenttool.cli.replay.judge import UNKNOWN, Outcome
from agenttool.records import Behavior, JsonObject

SHOWN = 50

_Key: TypeAlias = tuple[str, str, str, str]
_WORDS = (Behavior.ALLOW.value, Behavior.ASK.value, Behavior.DENY.value)


@dataclass(slots=True)
class _Group:
    """Calls that differ alike: how many, and the newest of them."""

    count: int
    newest: Outcome


@dataclass(slots=True)
class Tally:
    """Counts outcomes; of calls that differ alike one is kept."""

    unjudged: int = 0
    _totals: Counter[tuple[str, str]] = field(default_factory=Counter[tuple[str, str]])
    _groups: dict[_Key, _Group] = field(default_factory=dict["_Key", "_Group"])

    def add(self, outcome: Outcome) -> None:
        """Count one call."""
        self._totals[outcome.was, outcome.would] += 1
        if outcome.differs or outcome.would == UNKNOWN:
            key = (outcome.tool, outcome.was, outcome.would, outcome.in_short)
            earlier = self._groups.get(key)
            self._groups[key] = _Group(1 + (earlier.count if earlier else 0), outcome)

    @property
    def summary(self) -> JsonObject:
        """Give the figures for a program."""
        table: JsonObject = {was: {word: self._totals[was, word] for word in (*_WORDS, UNKNOWN)} for was in _WORDS}
        return {
            "type": "summary",
            "calls": self._totals.total(),
            "differ": self._sum(differs=True),
            "unknown": self._sum(differs=False),
            "not_judged": self.unjudged,
            "was_would": table,
        }

    def _sum(self, *, differs: bool) -> int:
        return sum(
            count
            for (was, would), count in self._totals.items()
            if (would not in (was, UNKNOWN) if differs else would == UNKNOWN)
        )

    def drawing(self) -> Iterator[RenderableType]:
        """Draw differences first, then what cannot be known, then totals."""
        differing = [group for group in self._groups.values() if group.newest.differs]
        unknown = [group for group in self._groups.values() if not group.newest.differs]
        count = self._sum(differs=True)
        known = self._totals.total() - self._sum(differs=False)
        yield Text(f"{count:,} of {known:,} calls would have gone another way", style="yellow" if count else "green")
        for title, groups in (("Another way", differing), ("Cannot be known", unknown)):
            if groups:
                yield heading(title)
                yield Padding(_groups_table(sorted(groups, key=lambda group: -group.count)), (0, 0, 0, 2))
                if len(groups) > SHOWN:
                    yield Text(f"  … and {len(groups) - SHOWN:,} more sorts; --json shows every call", style="dim")
        yield heading("Totals")
        yield Padding(self._totals_table(), (0, 0, 0, 2))

    def _totals_table(self) -> Table:
        table = plain_table("was", "would be", *_WORDS, UNKNOWN, header=True)
        for column in table.columns[2:]:
            column.justify = "right"
        for was in _WORDS:
            cells = [Text(f"{self._totals[was, word]:,}", style=_cell(was, word)) for word in (*_WORDS, UNKNOWN)]
            table.add_row(Text(was, style=style_of(was)), "", *cells)
        if self.unjudged:
            table.add_row(Text("not judged", style="dim"), Text(f"{self.unjudged:,}", style="dim"))
        return table


def _cell(was: str, would: str) -> str:
    return "dim" if was == would else "yellow" if would == UNKNOWN else "bold"


def _groups_table(groups: list[_Group]) -> Table:
    table = plain_table("calls", "tool", "was", "would be", "because", "newest", header=True)
    table.columns[0].justify = "right"
    for column in (*table.columns[2:4], table.columns[5]):
        column.no_wrap = True
    for group in groups[:SHOWN]:
        outcome = group.newest
        table.add_row(
            f"{group.count:,}",
            Text(printable(outcome.tool), style="cyan"),
            _was(outcome),
            Text(outcome.would, style=style_of(outcome.would) if outcome.differs else "yellow"),
            Text(printable(outcome.in_short)),
            short_id(outcome.call.invocation.invocation_id),
        )
    return table


def _was(outcome: Outcome) -> Text:
    told = Text(outcome.was, style=style_of(outcome.was))
    answer = outcome.call.answer
    return told if answer is None else told.append(f", {answer.behavior.value}", style=style_of(answer.behavior))
