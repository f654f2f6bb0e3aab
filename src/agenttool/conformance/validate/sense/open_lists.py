"""Is a word one of those that the standard lists, where its list is open.

Any other word is kept and read at its strictest (AT-VER-07), so it is a warning; whoever writes it wants to know.
"""

from difflib import get_close_matches
from functools import cache, lru_cache

from agenttool.conformance.validate.finding import Flaw, Severity, shown_word
from agenttool.records import (
    AbortReason,
    AbsenceReason,
    AccessKind,
    ArgumentMode,
    ContentClass,
    ErrorClass,
    EventType,
    ExecutionKind,
    HookOutputKind,
    InvocationStatus,
    NextAction,
    OpenEnum,
    ProgressStatus,
    QueryType,
    ReasonType,
    Recoverability,
    RedactionState,
    ResultStatus,
    RuleSource,
    SchedulerState,
    SurfaceScope,
    ToolKind,
    WriteEffect,
)

ROWS: dict[type[OpenEnum], str] = {
    ToolKind: "AT-DECL-18",
    ExecutionKind: "AT-EXEC-02",
    SurfaceScope: "AT-SURF-03",
    AbsenceReason: "AT-SURF-11",
    ArgumentMode: "AT-IO-08",
    InvocationStatus: "AT-INV-07",
    SchedulerState: "AT-SCHED-11",
    ProgressStatus: "AT-PROG-05",
    AbortReason: "AT-PROG-09",
    ResultStatus: "AT-RES-04",
    ContentClass: "AT-RES-03",
    HookOutputKind: "G-25",
    ReasonType: "AT-PERM-19",
    RuleSource: "AT-PERM-20",
    AccessKind: "AT-PERM-03",
    WriteEffect: "AT-PERM-04",
    ErrorClass: "AT-ERR-02",
    Recoverability: "G-59",
    RedactionState: "G-55",
    EventType: "AT-EVT-02",
    QueryType: "AT-DEFER-12",
    NextAction: "AT-DEFER-12",
}
"""Every open list, and the row or gap that gives its words."""

LISTED = {words: frozenset(str(word) for word in words) for words in ROWS}


def flaw_of_word(text: str, words: type[OpenEnum], pointer: str) -> Flaw | None:
    """Say that a word is not listed, and which one may have been meant."""
    if text in LISTED[words]:
        return None
    word = shown_word(text)
    nearest = _nearest(word, words) if word else None
    return Flaw(
        message=f"{repr(word) if word else 'the word'} is not in the list of the standard",
        expected=_sentence(words),
        advice=f"write {nearest!r}, if that is meant" if nearest else "use a listed word; others are read strictly",
        pointer=pointer,
        requirement=ROWS[words],
        severity=Severity.WARNING,
    )


@lru_cache(maxsize=1024)
def _nearest(word: str, words: type[OpenEnum]) -> str | None:
    return next(iter(get_close_matches(word.lower(), LISTED[words], n=1)), None)


@cache
def _sentence(words: type[OpenEnum]) -> str:
    return f"one of {', '.join(words)}"
