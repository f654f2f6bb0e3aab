"""Messages that may leave a call: no stack traces, no control characters, and no longer than anyone reads."""

import re
from collections.abc import Iterator

MAX_MESSAGE_CHARS = 2000
"""How much of a foreign message is passed on."""

# A trace may be long and what it says at its end short, so that more is read than is kept.
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


def clean_message(text: str, *, limit: int = MAX_MESSAGE_CHARS) -> str:
    """Give a message as it may be shown: what was said, without where in the code it was said (AT-ERR-15).

    Half of a surrogate pair becomes a question mark, so that the message can be written.
    """
    text = shorten(text, _READ_PER_CHAR * limit + _READ_AT_LEAST)
    if not text.isascii():
        text = text.encode("utf-8", "replace").decode()
    if "\x1b" in text:
        text = _TERMINAL_CODES.sub("", text)
    text = _CONTROLS.sub("", text.replace("\r\n", "\n"))
    if "\n" in text:
        text = _BLANK_LINES.sub("\n\n", "\n".join(_without_traces(text.split("\n"))))
    return shorten(text.strip(), limit)


def _without_traces(lines: list[str]) -> Iterator[str]:
    """Leave out stack traces: after the head of one, all that is indented belongs to it."""
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


def shorten(text: str, limit: int) -> str:
    """Cut the middle out of a text, and say how much is gone; never more than `limit` characters come back."""
    if len(text) <= limit:
        return text
    note = f" … ({len(text) - limit} or more characters left out) … "
    room = limit - len(note)
    if room <= 0:
        return text[:limit]
    tail = room // 4
    return text[: room - tail] + note + text[len(text) - tail :]
