"""Follow a page as a reader would: write its files, type its commands on a terminal, and compare the screen.

A page has two kinds of blocks:

- ```` ```python title="shop.py" ```` is a file that the reader writes.
- ```` ```console ```` is what the reader sees: commands after `$ `, then what they print. With `title="terminal 2"` the
  commands run beside those of another terminal, and a later block of the same terminal continues it.
- ```` ```text title="Output" ```` is what the program in the last block without a title prints.

A line `…` stands for any lines, and `…` in a line for any text. Ids, digests, times, durations and spaces between columns
may differ; the user is `ada` and the folder is `/home/ada/shop`. `<!-- type: y -->` before a block says what is typed at
its prompt.
"""

import fcntl
import getpass
import os
import pty
import re
import select
import shlex
import shutil
import signal
import struct
import subprocess
import sys
import termios
import time
from dataclasses import dataclass, field
from pathlib import Path

from free_ports import find_free_port

_BLOCK = re.compile(
    r'(?:<!-- type: (?P<typed>[^>]+) -->\n)?^```(?P<kind>[a-z]+)(?: title="(?P<title>[^"]+)")?\n(?P<text>.*?)^```$',
    re.MULTILINE | re.DOTALL,
)
_CONTROL = re.compile(r"(\n|\r?\x1b\[[0-9;?]*[A-Za-z])")
_ERASE, _UP = "\x1b[2K", "\x1b[1A"
_VARIABLE = (
    (re.compile(r"\bat[kls]_[\w-]{20,}"), "TOKEN"),
    (re.compile(r"(?<![0-9A-Za-z])(sha256:)?[0-9a-f]{8,64}(-\d+)?(?![0-9A-Za-z])"), "HEX"),
    (re.compile(r"\b\d{4}-\d\d-\d\d\b"), "DATE"),
    (re.compile(r"\b\d\d:\d\d:\d\d(\.\d+)?\b"), "TIME"),
    (re.compile(r"\b\d+(\.\d+)? ?(µs|ms|s|min)\b"), "DURATION"),
    (re.compile(r"\buid \d+"), "UID"),
    (re.compile(r"(?<=\S)  +"), "  "),
    (re.compile(r" +$", re.MULTILINE), ""),
)
WAIT_S = 120
"""How long a command may take before it counts as one that hangs."""


@dataclass
class Terminal:
    """One terminal: the command that runs in it, and what it has printed."""

    process: subprocess.Popen
    screen: int
    folder: str
    printed: bytes = b""
    shown: int = 0  # how many characters the blocks so far have matched
    ended: bool = False

    def text(self):
        """Return what it has printed, as the user `ada` would see it."""
        text = _left_on_screen(self.printed.decode(errors="ignore").replace("\r\n", "\n"))
        text += "\n" if self.ended and text[-1:] not in ("", "\n") else ""  # the prompt of a shell begins a line
        return re.sub(rf"\b{getpass.getuser()}\b", "ada", text.replace(self.folder, "/home/ada/shop"))

    def read(self, timeout):
        if not select.select([self.screen], [], [], timeout)[0]:
            return
        try:
            self.printed += os.read(self.screen, 65536)
        except OSError:  # the terminal has no process any more
            self.ended = True


@dataclass
class Reader:
    """Follows pages in a folder; `on_step` gets each command with its seconds and what the screen said."""

    folder: object
    environment: dict
    on_step: object = print
    terminals: dict = field(default_factory=dict)

    def follow(self, page):
        """Do what a page says, with a free port instead of 8642; raise AssertionError where the screen differs."""
        page = page.replace("8642", str(find_free_port()))
        for block in _BLOCK.finditer(page):
            if block["kind"] == "console":
                self._console(block["text"], block["title"], block["typed"])
            elif block["title"] == "Output":
                self._console(f"$ python program.py\n{block['text']}", None, None)
            elif block["title"] or block["kind"] == "python":
                (self.folder / (block["title"] or "program.py")).write_text(block["text"])

    def close(self):
        """Kill what still runs."""
        for terminal in self.terminals.values():
            if terminal.process.poll() is None:
                os.killpg(terminal.process.pid, signal.SIGKILL)
            terminal.process.wait()
            os.close(terminal.screen)
        self.terminals.clear()

    def _console(self, text, title, typed):
        if not text.startswith("$ "):
            began = time.monotonic()
            self._expect(self.terminals[title], text, typed)
            self.on_step(f"({title} continues)", time.monotonic() - began, text)
        for command, expected in re.findall(r"^\$ (.*)\n((?:(?!\$ ).*\n)*)", text, re.MULTILINE):
            began = time.monotonic()
            terminal = self._start(command, title)
            self._expect(terminal, expected, typed, is_all=title is None or typed is not None)
            self.on_step(command, time.monotonic() - began, terminal.text())

    def _start(self, command, title):
        if title in self.terminals:
            before = self.terminals[title]
            self._match(before, "", is_all=True)
            before.process.wait(WAIT_S)
            os.close(before.screen)
        screen, own = pty.openpty()
        fcntl.ioctl(own, termios.TIOCSWINSZ, struct.pack("HHHH", 40, 120, 0, 0))
        environment = {**self.environment, "TERM": "xterm", "NO_COLOR": "1"}
        process = subprocess.Popen(
            _words(command, self.environment), cwd=self.folder, env=environment, stdin=own, stdout=own, stderr=own,
            start_new_session=True,
        )  # fmt: skip
        os.close(own)
        self.terminals[title] = Terminal(process, screen, str(self.folder))
        return self.terminals[title]

    def _expect(self, terminal, expected, typed, *, is_all=False):
        if typed:
            before, prompt, expected = expected.partition(f": {typed}\n")
            assert prompt, f"the block shows no prompt that is answered with {typed!r}"
            self._match(terminal, f"{before}:")
            while not terminal.ended and not terminal.text().endswith(" "):  # some prompts print the space last
                terminal.read(WAIT_S)
            os.write(terminal.screen, f"{typed}\n".encode())
            expected = f"{typed}\n{expected}"
        self._match(terminal, expected, is_all=is_all)

    def _match(self, terminal, expected, *, is_all=False):
        pattern, deadline = re.compile(_pattern(expected)), time.monotonic() + WAIT_S
        match = pattern.fullmatch if is_all else pattern.match
        while (is_all and not terminal.ended) or not (found := match(_normal(terminal.text()), terminal.shown)):
            if terminal.ended or time.monotonic() > deadline:
                raise AssertionError(f"the page shows:\n{expected}\nthe screen:\n{terminal.text()}")
            terminal.read(0.2)
        terminal.shown = found.end()


def _words(command, environment):
    """Return the words that start a command; programs of this environment start without a shell, which is faster."""
    words = shlex.split(command)
    program = shutil.which("agenttool", path=environment.get("PATH"))
    is_other = program is not None and Path(program).parent != Path(sys.executable).parent
    if is_other or set("|&;<>$`*") & set(command) or not (words[0] == "agenttool" or words[1].endswith(".py")):
        return ["bash", "-c", command]
    return [sys.executable, "-m", *words] if words[0] == "agenttool" else [sys.executable, *words[1:]]


def _left_on_screen(printed):
    """Return the lines without colors, and without a progress bar, which is drawn if a command is slow, then erased."""
    lines, row = [""], 0
    for part in _CONTROL.split(printed):
        if part == "\n":
            row += 1
            lines += [""] * (row == len(lines))
        elif part.lstrip("\r") == _ERASE:
            lines[row] = ""
        elif part.lstrip("\r") == _UP:
            row -= 1
        elif not _CONTROL.fullmatch(part):
            lines[row] += part
    return "\n".join(lines)


def _normal(text):
    """Return a text without what differs from run to run."""
    for variable, name in _VARIABLE:
        text = variable.sub(name, text)
    return text


def _pattern(expected):
    """Return the expression that a block's text stands for."""
    expected = _normal(expected)
    lines = [r"(?:.*\n)*?" if line == "…\n" else re.escape(line).replace("…", ".*?") for line in expected.splitlines(keepends=True)]  # fmt: skip
    return " *" + "".join(lines)
