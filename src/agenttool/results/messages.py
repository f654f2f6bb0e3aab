"""Messages of errors and progress: without stack traces, terminal codes and controls, and of limited length."""

import re
from collections.abc import Iterator

from agenttool.codec.visible_text import visible_text

MAX_MESSAGE_CHARS = 2000
"""How many characters of a message are passed on."""

# A trace can be long and its last line short, so more text is read than is returned.
_READ_PER_CHAR = 10
_READ_AT_LEAST = 1000
_INDENTS = frozenset(" \t+|")
_TERMINAL_CODES = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)?|.)")
_CONTROLS = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")
_TRACE = re.compile(r"[ \t+|]*(?:Exception Group )?Traceback \(most recent call last\):")
_FRAME = re.compile(r"at \S+:\d+(?::\d+)?$|File \".*\", line \d+|goroutine \d+ \[")
_CHAINS = (
    "During handling of the above exception, another exception occurred:",
    "The above exception was the direct cause of the following exception:",
)
_BLANK_LINES = re.compile(r"\n{3,}")


def without_controls(text: str) -> str:
    """Return a text that can be encoded, without terminal codes and controls, in which nothing is invisible."""
    text = without_codes(text)
    return text if text.isascii() else visible_text(encodable(text))


def without_codes(text: str) -> str:
    """Return a text without terminal codes and controls."""
    if "\x1b" in text:
        text = _TERMINAL_CODES.sub("", text)
    return _CONTROLS.sub("", text.replace("\r\n", "\n"))


def clean_message(text: str, *, limit: int = MAX_MESSAGE_CHARS) -> str:
    """Return a message without stack traces, control and invisible characters (AT-ERR-15), at most `limit` long.

    A lone surrogate becomes a question mark, so that the message can be encoded.
    """
    text = without_controls(shorten(text, _READ_PER_CHAR * limit + _READ_AT_LEAST))
    if "\n" in text:
        text = _BLANK_LINES.sub("\n\n", "\n".join(_without_traces(text.split("\n"))))
    return shorten(text.strip(), limit)


def _without_traces(lines: list[str]) -> Iterator[str]:
    """Skip stack traces: every indented line after the head of a trace belongs to it."""
    in_trace = False
    for line in lines:
        if _TRACE.match(line):
            in_trace = True
        elif not (in_trace and line[:1] in _INDENTS) and not _is_frame(line.strip()):
            in_trace = False
            yield line


def _is_frame(line: str) -> bool:
    is_call = line.startswith("at ") and line.endswith(")") and "(" in line
    return is_call or line in _CHAINS or _FRAME.match(line) is not None


def ends_of(text: str, size: int) -> tuple[str, str]:
    """Return the first and the last characters of a text; if they meet, both are the whole text."""
    return (text, text) if len(text) <= 2 * size else (text[:size], text[-size:])


def encodable(text: str) -> str:
    """Return a text in which each lone surrogate is a question mark."""
    return text.encode("utf-8", "replace").decode()


def shorten(text: str, limit: int) -> str:
    """Cut the middle out of a text and write how much is missing; return at most `limit` characters."""
    if len(text) <= limit:
        return text
    note = f" … ({len(text) - limit} or more characters left out) … "
    room = limit - len(note)
    if room <= 0:
        return text[:limit]
    tail = room // 4
    return text[: room - tail] + note + text[len(text) - tail :]
