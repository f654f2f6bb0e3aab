"""Read the words of shell text: quotes, expansions, braces, calculations and here-documents."""

import re
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Iterable
from enum import IntEnum
from functools import cached_property
from itertools import chain, product
from math import prod
from typing import NamedTuple


class Certainty(IntEnum):
    """How much of a word is known before the shell runs, the most first."""

    PLAIN = 0
    NUMBER = 1
    """It is a number that is computed."""
    EXPANDS = 2
    """It has wildcards that stand for file names."""
    COMPUTED = 3
    """It is computed by the line, and it is exactly one word, because it is quoted."""
    UNKNOWN = 4
    """It is computed by the line: by a substitution or from a variable. It may even be several words, or none."""
    INHERITED = 5
    """It contains a variable of the environment, whose value may be secret or any text."""


class Word(NamedTuple):
    """One word of a command."""

    text: str
    certainty: Certainty = Certainty.PLAIN

    @property
    def is_plain(self) -> bool:
        """Return whether the word is exactly its text."""
        return self.certainty is Certainty.PLAIN

    @property
    def is_number(self) -> bool:
        """Return whether the word is a number that is computed."""
        return self.certainty is Certainty.NUMBER

    @property
    def expands(self) -> bool:
        """Return whether the word has wildcards that stand for file names."""
        return self.certainty is Certainty.EXPANDS

    @property
    def is_inherited(self) -> bool:
        """Return whether the word has a variable of the environment."""
        return self.certainty is Certainty.INHERITED

    @property
    def head(self) -> str:
        """The text before an equals sign: the name of an option or a variable."""
        return self.text.partition("=")[0]

    @property
    def is_unknown(self) -> bool:
        """Return whether the word may be any text."""
        return self.certainty >= Certainty.COMPUTED


Words = tuple[Word, ...]

A_NUMBER = Word("0", Certainty.NUMBER)
"""A number that is computed."""


def unknown(text: str) -> Word:
    """Return a word that may be any text, or several words."""
    return Word(text, Certainty.UNKNOWN)


def inherited_text(words: Iterable[Word]) -> str | None:
    """Return the first of some words that has a variable of the environment; None if none has."""
    return next((word.text for word in words if word.is_inherited), None)


MAX_PARTS = 250
"""How many parts of words are read, each round of a loop on its own; a text with more of them is in doubt."""
MAX_NESTING = 40
"""How deeply commands and expansions may be nested."""

MAX_ROUNDS = 16
"""A loop over at most so many known words is read once for each of them."""
HARMLESS_VARIABLES = frozenset(
    """
    CI COLUMNS DEBUG DEBIAN_FRONTEND FORCE_COLOR GIT_TERMINAL_PROMPT GOARCH GOOS CGO_ENABLED LANG LC_ALL LC_COLLATE
    LC_CTYPE LC_MESSAGES LC_NUMERIC LC_TIME LINES LOG_LEVEL NODE_ENV NO_COLOR PORT PYTHONDONTWRITEBYTECODE
    PYTHONHASHSEED PYTHONUNBUFFERED RUST_BACKTRACE RUST_LOG TERM TZ VERBOSE
    """.split()  # noqa: SIM905 -- as above
)
"""Variables that change neither which program runs nor what it loads; an allow need not name them."""
_SHOWN_VARIABLES = HARMLESS_VARIABLES.union(
    "BASH_VERSION HOSTNAME LOGNAME OLDPWD OSTYPE PATH SHELL TMPDIR USER".split()  # noqa: SIM905 -- as above
)
_NUMBERS = frozenset({"?", "#", "$", "!", "RANDOM", "SECONDS", "LINENO", "UID", "EUID", "PPID", "BASHPID", "SHLVL"})
_PLACES = {"HOME": "~", "PWD": "."}
_SPECIAL = frozenset(
    """
    IFS PATH OLDPWD EPOCHSECONDS EPOCHREALTIME GROUPS FUNCNAME HISTCMD SRANDOM DIRSTACK OPTIND OPTARG REPLY COLUMNS
    LINES PIPESTATUS SHELLOPTS POSIXLY_CORRECT ENV
    """.split()  # noqa: SIM905 -- as above
).union(_NUMBERS, _PLACES)
"""Variables that the shell itself sets or reads; a value that a line gives them is not relied on."""
_BLANKS = re.compile(r"(?:[ \t]|\\\n)*(?:#[^\n]*)?")
_BLANK_LINES = re.compile(r"(?:[ \t\n]|\\\n|#[^\n]*(?:\n|\Z))*")
_BARE = re.compile(r"[^\s;&|<>()'\"`\\$*?\[]+")
_GLOB = re.compile(r"[*?]|\[[!^]?\]?[^\]\s'\"$`\\;&|<>()/]{0,64}\]")
_IN_BRACES = re.compile(r"[^}'\"\\$`]+")
_IN_QUOTES = re.compile(r'[^"\\$`]+')
_MAX_BRACED = 1000
_BRACES = re.compile(r"\{([^{}]*)\}")
_RANGE = re.compile(r"(\d{1,4})\.\.(\d{1,4})")
NAME = re.compile(r"[A-Za-z_]\w*")
_PARAMETER = re.compile(r"\$(?:([A-Za-z_]\w*)|([0-9?#$!@*-]))")
_VARIABLE = re.compile(r"\$\{?(\w+)\}?")
_EXPANSION = re.compile(r"\$(?:\(\(?|\{|['\"]|[A-Za-z_]\w*|[0-9?#$!@*-])|`")
_STRINGS = ("$'", '$"')
_BRACED = re.compile(r"\$\{(#?)([A-Za-z_]\w*|[0-9]+|[?@*#$!-])(?:\[[@*0-9]+\])?")
_BRACED_OPERATOR = re.compile(r":?[-+=?]|%%?|##?|//?|\^\^?|,,?")
_SUBSTRING = re.compile(r":\s*-?\d+(?::\s*-?\d+)?(?=\})")
_CALCULATION = re.compile(r"[\s\w+\-*/%<>=!&|^~?:(),;]*")
_SHOWN_DOCUMENT = re.compile(r"\s{0,9}cat << ?(['\"])(\w+)\1[ \t]{0,9}\n(.*)\n\2\s{0,9}", re.DOTALL)
_CALCULATED = re.compile(r"([A-Za-z_]\w*)\s*(?:(?:[-+*/%&|^]|<<|>>)?=(?!=)|\+\+|--)|(?:\+\+|--)\s*([A-Za-z_]\w*)")
_SETTERS = re.compile(r"\b(?:read|mapfile|readarray|getopts|printf\s+-v|let|declare|local|typeset)\b")
_SETTING = re.compile(
    r"(?<![\w$])([A-Za-z_]\w*)\s{0,9}(?:[-+*/]?=(?!=)\s{0,9}(\d+(?![^\s;&|)])|\$\(\(|\$#|\$\((?:nproc|date \+%s)\))?)"
    r"|\bfor ([A-Za-z_]\w*) in (\d|\$\(seq \d|\{\d)?"
)
_READING = re.compile(r"\bread\b[^;\n|&<]*")
_MENTION = re.compile(r"(?<![\w$])(?<!\$\{)[A-Za-z_]\w*")
_ESCAPES = {"n": "\n", "t": "\t", "\\": "\\", "'": "'"}
_ESCAPE = re.compile(r"\\([nt\\'])")
_ALL_WORDS = re.compile(r"\$\{?@|\[@\]")
_OTHER_ESCAPE = re.compile(r"(?<!\\)(?:\\\\)*\\[^nt\\']", re.DOTALL)
_NUMERIC_OUTPUT = re.compile(
    r"nproc|date(?: -u)? \+(?:%[YymdHMSsjFT]|[-_:T])+|(?:(?:[^;&\n|]|\|(?!\|))*\|\s*)?wc -[lwcm](?: < [\w./-]+)?"
)


class NotUnderstoodError(Exception):
    """The text leaves the subset of the shell language that is parsed."""


class WordParser(ABC):
    """Reads words at a place in a text; a subclass reads the commands that are substituted in them.

    Attributes:
        whole: the whole text, also while a part of it is read on its own.
        pending: the here-documents that begin after the next newline: their last line, and whether it is quoted.
        doubt: what was not understood, although reading continued.
        quoted: how many characters are in quoted here-documents, where nothing is special.
    """

    def __init__(self, text: str) -> None:
        """Begin at the start of a text."""
        self.whole = text
        self.quoted = 0
        self.text = text
        self.at = 0
        self.doubt: str | None = None
        self.pending: list[tuple[str, bool]] = []
        self._parts = 0
        self._depth = 0
        self._variables: dict[str, Word] = {}

    @abstractmethod
    def read_list(self, closers: tuple[str, ...]) -> str:
        """Read commands up to one of the closers, or to the end of the text; return the closer."""

    @abstractmethod
    def _count_commands(self) -> int:
        """Return how many commands have been read."""

    @abstractmethod
    def _note_assignment(self, word: Word) -> None:
        """Take an assignment that stands in no command: of a loop, or in a calculation."""

    @abstractmethod
    def _listed_files(self, first: int) -> Word | None:
        """Return a word for the files that the commands since the first list; None if they may print other text."""

    def _is_at(self, *texts: str) -> bool:
        """Return whether one of some texts is next."""
        return self.text.startswith(texts, self.at)

    def _skip(self, text: str) -> bool:
        """Skip a text if it is next, and return whether it was."""
        if not self._is_at(text):
            return False
        self.at += len(text)
        return True

    def _find(self, pattern: re.Pattern[str]) -> re.Match[str] | None:
        """Match a pattern here."""
        return pattern.match(self.text, self.at)

    def _take(self, pattern: re.Pattern[str]) -> re.Match[str] | None:
        """Match a pattern here, and continue after the match."""
        match = self._find(pattern)
        self.at = match.end() if match else self.at
        return match

    def _words(self, skip: Callable[[], None]) -> list[Word]:
        """Read words, and call a function that skips what is between them."""
        found: list[Word] = []
        while True:
            skip()
            more = self._word()
            if more is None:
                return found
            found += more

    def _word(self) -> list[Word] | None:
        """Read one word, which braces may make several; None if there is none."""
        parts, bare_text = list[Word](), ""
        while self.at < len(self.text):
            char = self.text[self.at]
            if bare := self._take(_BARE) or self._take(_GLOB):
                bare_text += bare[0]
                is_glob = bare.re is _GLOB
                text = bare[0] if bare[0] in "*?" or not is_glob else "?"
                parts.append(Word(text, Certainty.EXPANDS if is_glob else Certainty.PLAIN))
            elif char == "[":
                self.at += 1
                parts.append(Word(char))
            elif char in "'\"\\$`" or self._is_at("<(", ">("):
                bare_text += "\0"
                parts.append(self._quoted_part(char))
            else:
                break
            self._count()
        if not parts:
            return None
        if self._is_at("("):
            raise NotUnderstoodError("a parenthesis stands inside a word")
        word = _joined(parts)
        if len(bare_text) > _MAX_BRACED:
            return [unknown(word.text) if "{" in bare_text else word]
        if _BRACES.search(bare_text) and ("," in bare_text or ".." in bare_text):
            return _expand_braces(word, is_bare="\0" not in bare_text)
        return [word]

    def _quoted_part(self, char: str) -> Word:
        match char:
            case "'":
                end = self.text.find("'", self.at + 1)
                if end < 0:
                    raise NotUnderstoodError("a quote is not closed")
                word = Word(self.text[self.at + 1 : end])
                self.at = end + 1
            case '"':
                self.at += 1
                start = self.at
                word = self._until('"')
                if word.certainty is Certainty.UNKNOWN and not _ALL_WORDS.search(self.text, start, self.at):
                    word = Word(word.text, Certainty.COMPUTED)
            case "\\":
                word = Word(self.text[self.at + 1 : self.at + 2])
                if word.text in ("", "\n"):
                    raise NotUnderstoodError("a line is joined inside a word")
                self.at += 2
            case "<" | ">":
                self.at += 2
                self._substituted()
                word = Word("/dev/fd/63")
            case _:
                word = self._expansion(is_quoted=False)
        return word

    def _until(self, closer: str) -> Word:
        """Read text with expansions up to a closing character; an empty closer is the end of the text."""
        parts = [Word("")]
        while True:
            self._count()
            if self.at >= len(self.text):
                if closer:
                    raise NotUnderstoodError("a quote is not closed")
                break
            char = self.text[self.at]
            if char == closer:
                self.at += 1
                break
            if char == "\\":
                escape = "" if self.text[self.at + 1 : self.at + 2] in set('$`"\\\n') else "\\"
                parts.append(Word(escape + self.text[self.at + 1 : self.at + 2].replace("\n", "")))
                self.at += 2
            elif char in "$`":
                parts.append(self._expansion(is_quoted=True))
            elif closer == "}" and char in "'\"":
                parts.append(self._quoted_part(char))
            else:
                plain = self._take(_IN_BRACES if closer == "}" else _IN_QUOTES)
                parts.append(Word(plain[0] if plain else char))
                if plain is None:
                    self.at += 1
        return _joined(parts)

    def _descend(self) -> None:
        """Count a command or an expansion that stands inside another."""
        self._depth += 1
        if self._depth > MAX_NESTING:
            raise NotUnderstoodError("commands are nested too deeply")

    def _expansion(self, *, is_quoted: bool) -> Word:
        """Read what begins with a dollar or a backquote."""
        if self._is_at("$["):
            raise NotUnderstoodError("the old form of arithmetic, '$[…]', is not understood")
        self._descend()
        word = self._expanded(is_quoted=is_quoted)
        self._depth -= 1
        return word

    def _expanded(self, *, is_quoted: bool) -> Word:
        match = self._find(_EXPANSION)
        if match is None or (match[0] in _STRINGS and is_quoted):
            self.at += 1
            return Word("$")
        readers = {"`": self._backquoted, "${": self._braced, "$'": self._ansi_string, '$"': self._ansi_string}
        if match[0] in readers:
            return readers[match[0]]()
        self.at = match.end()
        if match[0] == "$((":
            self._arithmetic()
            return A_NUMBER
        if match[0] != "$(":
            return self._value(match[0][1:], is_quoted=is_quoted)
        first = self._count_commands()
        word = self._substituted()
        shown = _SHOWN_DOCUMENT.fullmatch(self.text[match.end() : self.at - 1])
        is_known = is_quoted and self._count_commands() == first + 1
        return word if shown is None or not is_known else Word(shown[3].rstrip("\n"))

    def _substituted(self) -> Word:
        outer, self.pending, start = self.pending, [], self.at
        first = self._count_commands()
        self.read_list((")",))
        inner = self.text[start : self.at - 1].strip()
        if self.pending or (outer and "\n" in inner):
            raise NotUnderstoodError("a here-document stands inside a substitution")
        self.pending = outer
        if (listed := self._listed_files(first)) is not None:
            return listed
        is_number = len(inner) < _MAX_BRACED and _NUMERIC_OUTPUT.fullmatch(inner) is not None
        return A_NUMBER if is_number else unknown(f"$({inner})")

    def _backquoted(self) -> Word:
        end = self.text.find("`", self.at + 1)
        inner = self.text[self.at + 1 : end]
        if end < 0 or "\\" in inner:
            raise NotUnderstoodError("backquotes are nested or not closed")
        self._nested(inner, lambda: self.read_list(()))
        self.at = end + 1
        return unknown(f"`{inner}`")

    def _nested(self, text: str, read: Callable[[], object]) -> None:
        """Read another text in place: a script, or the body of a here-document."""
        outer = self.text, self.at, self.pending
        self.text, self.at, self.pending = text, 0, []
        read()
        self.text, self.at, self.pending = outer

    def _braced(self) -> Word:
        message = "an expansion of a variable is not understood"
        match = self._expect(_BRACED, message)
        word = A_NUMBER if match[1] else self._value(match[2], is_quoted=True)
        if not (self._take(_SUBSTRING) or self._take(_BRACED_OPERATOR)):
            self._expect(r"\}", message)
            return word
        other = self._until("}")
        return Word(word.text, max(word.certainty, other.certainty, Certainty.UNKNOWN))

    def _ansi_string(self) -> Word:
        match = self._expect(r"(?s)\$'((?:[^'\\]|\\.)*)'", "a quote is not understood")
        if _OTHER_ESCAPE.search(match[1]):
            raise NotUnderstoodError("an escape in a string is not understood")
        return Word(_ESCAPE.sub(lambda each: _ESCAPES[each[1]], match[1]))

    def _value(self, name: str, *, is_quoted: bool) -> Word:
        """Return what is known of a variable."""
        bound = self._variables.get(name)
        if bound is not None:
            is_one = is_quoted or not bound.is_plain or not re.search(r"[\s*?\[]", bound.text)
            return bound if is_one else unknown(f"${name}")
        if (name in _PLACES or name in _NUMBERS) and self._mentions[name]:
            return unknown(f"${name}")
        if name in _PLACES:
            return Word(_PLACES[name])
        if name in _NUMBERS:
            return A_NUMBER
        is_known = not name[0].isalpha() or name in _SHOWN_VARIABLES or name in self._set_values
        return Word(f"${name}", Certainty.UNKNOWN if is_known else Certainty.INHERITED)

    def _can_bind(self, name: str, words: list[Word]) -> bool:
        """Return whether a variable surely has these values: they are known, and the text names it only once."""
        return (
            bool(NAME.fullmatch(name))
            and name not in _SPECIAL
            and not name.startswith("BASH")
            and not any(word.is_unknown for word in words)
            and len(self._variables) < MAX_ROUNDS
            and self._mentions[name] == 1
        )

    def _arithmetic(self) -> None:
        """Read a calculation up to `))`; a value that is not known could name an array, and so run commands."""
        depth, literal = 0, ""
        while depth or not self._is_at("))"):
            self._count()
            char = self.text[self.at : self.at + 1]
            if char in ("", "'", '"', "\\", "[", "\n"):
                raise NotUnderstoodError("a calculation is not understood")
            if char in "$`":
                match = self._find(_VARIABLE)
                literal += match[1] if match else "$"
                self._expansion(is_quoted=True)
                continue
            depth += (char == "(") - (char == ")")
            literal += char
            self.at += 1
            if depth < 0:
                raise NotUnderstoodError("a calculation is not closed")
        self.at += 2
        for before, after in _CALCULATED.findall(literal):
            if not is_local(before or after):
                self._note_assignment(Word(f"{before or after}=0"))
        names = set(NAME.findall(literal)) - _NUMBERS
        if not _CALCULATION.fullmatch(literal) or not all(map(self._is_numeric, names)):
            self._unclear("a calculation uses a value that is not known")

    def _is_numeric(self, name: str) -> bool:
        """Return whether the text sets a variable to numbers only."""
        bound = self._variables.get(name)
        if bound is not None:
            return self._is_number(bound)
        return self._set_values.get(name) is True and _SETTERS.search(self.whole) is None

    @cached_property
    def _set_values(self) -> dict[str, bool]:
        """The variables that the text sets, and whether it sets them to numbers only."""
        found: dict[str, bool] = {}
        for match in _SETTING.finditer(self.whole):
            name = match[1] or match[3]
            found[name] = found.get(name, True) and (match[2] or match[4]) is not None
        for match in _READING.finditer(self.whole):
            found.update(dict.fromkeys(NAME.findall(match[0]), False))
        return found

    @cached_property
    def _mentions(self) -> Counter[str]:
        """How often the text has each name without a dollar before it."""
        return Counter(_MENTION.findall(self.whole))

    def _is_number(self, word: Word) -> bool:
        if word.is_number or (word.is_plain and re.fullmatch(r"-?\d+", word.text)):
            return True
        match = _PARAMETER.fullmatch(word.text)
        return match is not None and match[1] is not None and self._is_numeric(match[1])

    def _blanks(self) -> None:
        """Skip blanks and a comment."""
        self._take(_BLANKS)

    def _blank_lines(self) -> None:
        """Skip blanks and comments, and the newlines between commands with the here-documents after them."""
        while True:
            self._take(_BLANKS if self.pending else _BLANK_LINES)
            if not self._skip("\n"):
                return
            for last_line, is_quoted in self.pending:
                self._here_document(last_line, is_quoted=is_quoted)
            self.pending = []

    def _here_document(self, last_line: str, *, is_quoted: bool) -> None:
        end = re.compile(last_line, re.MULTILINE).search(self.text, self.at)
        if end is None:
            raise NotUnderstoodError("a here-document is not closed")
        body, after = self.text[self.at : end.start()], end.end()
        if not is_quoted:
            if "\\\n" in body:
                raise NotUnderstoodError("a line of a here-document is joined to the next")
            self.pending = []
            self._nested(body, lambda: self._check_input(self._until("")))
        else:
            self.quoted += len(body)
        self.at = after

    def _expect(self, pattern: str | re.Pattern[str], message: str) -> re.Match[str]:
        match = self._take(re.compile(pattern))
        if match is None:
            raise NotUnderstoodError(message)
        return match

    def _count(self) -> None:
        self._parts += 1
        if self._parts > MAX_PARTS:
            raise NotUnderstoodError("the text has too many words")

    def _check_input(self, *words: Word) -> None:
        """Check what programs may print: here-documents, here-strings, the arguments of functions."""
        for word in words:
            if word.is_inherited:
                self._unclear(f"a program gets {word.text[:40]!r}, with a variable of the environment")

    def _unclear(self, message: str) -> None:
        self.doubt = self.doubt or message


def is_local(name: str) -> bool:
    """Return whether no program and no shell reads a variable of this name."""
    return name.islower() and not name.endswith(("path", "proxy"))


def _joined(parts: list[Word]) -> Word:
    """Join the parts of one word; a number inside of other text may be any characters."""
    if len(parts) == 1:
        return parts[0]
    certainty = max(part.certainty for part in parts)
    if certainty is Certainty.NUMBER and not parts[0].text.startswith("-"):
        certainty = Certainty.EXPANDS
    # A quoted star beside a bare one is taken for a wildcard: too wide, which a deny can bear and an allow not.
    return Word("".join("*" if part.is_number else part.text for part in parts), certainty)


def _expand_braces(word: Word, *, is_bare: bool) -> list[Word]:
    """Return the words of `a{b,c}`; braces that are nested or beside quotes are unknown."""
    pieces = _BRACES.split(word.text)
    choices = [_alternatives(each) if index % 2 else [each] for index, each in enumerate(pieces)]
    size = prod(map(len, choices))
    has_more = set("{}") & set("".join(chain(*choices)).replace("{}", ""))
    if not is_bare or word.is_unknown or size > MAX_ROUNDS or has_more:
        return [unknown(word.text)]
    texts = ["".join(each) for each in product(*choices)]
    return [Word(each, word.certainty) for each in texts if each]


def _alternatives(inner: str) -> list[str]:
    bounds = _RANGE.fullmatch(inner)
    if bounds is not None:
        first, last = int(bounds[1]), int(bounds[2])
        return [str(each) for each in range(min(first, last), max(first, last) + 1)]
    return inner.split(",") if "," in inner else ["{" + inner + "}"]
