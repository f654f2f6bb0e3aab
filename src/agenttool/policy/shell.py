"""Parse shell text into simple commands with their words, assignments and redirections. Nothing is executed.

The parser accepts a subset of the shell language that every shell reads alike, and knows nothing beyond it. Text
outside of that subset is in doubt: a deny or an ask on commands then asks, and no allow on commands covers it.
"""

import re
from typing import NamedTuple

from agenttool.policy.shell_words import (
    MAX_ROUNDS,
    NAME,
    Certainty,
    NotUnderstoodError,
    Word,
    WordParser,
    Words,
    inherited_text,
    is_local,
    unknown,
)
from agenttool.policy.usage import MAX_ARGUMENTS, Usage, found_words, passes_names


class Subcommand(NamedTuple):
    """One command of a line.

    Attributes:
        words: its name and arguments; empty for a redirection or an assignment that stands alone.
        writes: files that its redirections write to.
        reads: files that its redirections read.
        appends: those of `writes` that a redirection only appends to.
        is_wrapper: whether an allow need not name it: it only runs commands that are listed beside it, or an allow
            names the command that runs it.
        opaque: why it may run commands that are not listed, or do what its words do not show; None if it cannot.
        risk: the word that makes a known program opaque; an allow must spell it out.
        source: the words of the command whose output it reads through a pipe, if it is `xargs`.
        usage: how it uses a known program; None if an argument is not known to be harmless.
    """

    words: Words = ()
    assignments: Words = ()
    writes: Words = ()
    reads: Words = ()
    appends: Words = ()
    is_wrapper: bool = False
    opaque: str | None = None
    risk: str | None = None
    source: Words = ()
    usage: Usage | None = None

    @property
    def name(self) -> str | None:
        """The command's name, if it is known."""
        return self.words[0].text if self.words and self.words[0].is_plain else None


class CommandLine(NamedTuple):
    """The commands of one text.

    Attributes:
        text: the text itself.
        doubt: what was not understood, so that the list may be incomplete and an allow does not rely on it.
    """

    text: str = ""
    subcommands: tuple[Subcommand, ...] = ()
    doubt: str | None = None


MAX_COMMAND = 4096
"""A text that is longer, apart from quoted here-documents, is in doubt."""
MAX_TEXT = 16_384
"""A text that is longer with its here-documents is in doubt."""
MAX_COMMANDS = 32
"""How many commands a text may have; one with more is in doubt."""
RESERVED = frozenset(
    "{ } ! [[ ]] if then else elif fi do done case esac while until for in function select coproc".split()  # noqa: SIM905 -- a list of words reads best as words
)
_BRACKETS = {"(": ")", "{": "}"}
_PLUMBING = frozenset({"/dev/null", "/dev/stdout", "/dev/stderr", "/dev/stdin", "/dev/tty", "/dev/zero"})
_ASSIGNMENT = re.compile(r"([A-Za-z_]\w*)(\+?=)")
_SUBSCRIPT = re.compile(r"[A-Za-z_]\w*\[")
_ELEMENTS = re.compile(r"(?:^|\s)\[")
"""The start of an element in the values of an array; the shell calculates its subscript, which may run commands."""
_DECLARATIONS = frozenset({"declare", "export", "local", "readonly", "typeset", "alias", "eval", "let"})
_REDIRECT = re.compile(r"\d*(&>>|&>|>>|>\||>&|<&|<>|<<<|<<-|<<|<|>)")
_DELIMITER = re.compile(r"""[ \t]*(?:(['"])(\w+)\1|(\w+))(?=[\s;&|<>)]|$)""")
_FUNCTION = re.compile(
    r"(?:function[ \t]+[A-Za-z_][\w-]*[ \t]*(?:\([ \t]*\))?|[A-Za-z_][\w-]*[ \t]*\([ \t]*\))\s*(?=[{(])"
)
_PREFIX = re.compile(r"(?:!|time(?:[ \t]+-p(?=[ \t]))?)(?=[\s;&|<>()]|$)")
_KEYWORD = re.compile(r"(?:[a-z]+|[{}!]|\[\[)(?=[\s;&|<>()]|$)")
_SEPARATOR = re.compile(r";(?!;)|&(?![&>])|(?=\n)")
_OR_BACKGROUND = re.compile(r"\|\||&(?!&)")
_REGEX = re.compile(r"""(?:[^\s\\'"$`]|\\.|'[^']*'|"[^"$`\\]*"|\$(?=[\s)|]))+""")
_TEST_OPERATOR = re.compile(r"&&|\|\||[()<>]|!(?=\s)")
_COMPARISONS = frozenset({"-eq", "-ne", "-lt", "-le", "-gt", "-ge"})
_ALWAYS = frozenset({":", "true", "false"})
_PAUSES = frozenset({"break", "exit", "read", "return", "sleep", "wait"})
_UNREADABLE = re.compile("[\0\r\ud800-\udfff\u200b-\u200f\u202a-\u202e\u2060-\u2069\ufeff]")


def parse_commands(text: str) -> CommandLine:
    """Parse a text into its simple commands, without the commands that these run."""
    if len(text) > (MAX_TEXT if "<<" in text else MAX_COMMAND):
        return CommandLine(text=text, doubt="the text is too long")
    if _UNREADABLE.search(text):
        return CommandLine(text=text, doubt="the text has characters that shells read differently")
    parser = _Parser(text)
    try:
        parser.read_list(())
    except NotUnderstoodError as error:
        parser.doubt = str(error)
    if len(text) - parser.quoted > MAX_COMMAND:
        return CommandLine(text=text, doubt="the text is too long")
    return CommandLine(text=text, subcommands=tuple(parser.found), doubt=parser.doubt)


class _Parser(WordParser):
    """A recursive-descent parser; `found` are the commands in the order of the text."""

    def __init__(self, text: str) -> None:
        super().__init__(text)
        self.found: list[Subcommand] = []
        self._has_pipe = False

    def read_list(self, closers: tuple[str, ...]) -> str:
        """Read commands up to one of the closers, or to the end of the text; return the closer."""
        self._descend()
        while True:
            self._blank_lines()
            closer = self._closer(closers)
            if closer is None and self.at >= len(self.text):
                if closers or self.pending:
                    missing = f"{closers[0]!r} is missing" if closers else "a here-document is not closed"
                    raise NotUnderstoodError(missing)
                closer = ""
            if closer is None:
                self._and_or()
                self._blanks()
                if len(self.found) > MAX_COMMANDS:
                    raise NotUnderstoodError("the text has too many commands")
                closer = self._closer(closers)
            if closer is not None:
                self._depth -= 1
                return closer
            if self.at < len(self.text):
                self._expect(_SEPARATOR, "an operator stands where a command ends")

    def _count_commands(self) -> int:
        return len(self.found)

    def _note_assignment(self, word: Word) -> None:
        self.found.append(Subcommand(assignments=(word,)))

    def _listed_files(self, first: int) -> Word | None:
        commands = self.found[first:]
        is_changed = any(each.assignments or each.writes or each.reads for each in commands)
        if not commands or is_changed or not all(passes_names(each.words) for each in commands[1:]):
            return None
        found = found_words(commands[0].words)
        if any(word.is_unknown for word in found):
            return None
        return found[0] if len(found) == 1 else Word("./**", Certainty.EXPANDS)

    def _closer(self, closers: tuple[str, ...]) -> str | None:
        for each in closers:
            is_word = each[0].isalpha() or each == "}"
            keyword = self._find(_KEYWORD) if is_word else None
            if (not is_word or (keyword and keyword[0] == each)) and self._skip(each):
                return each
        return None

    def _and_or(self) -> None:
        """Read pipelines that `&&` and `||` join; remember what an unconditional assignment sets."""
        before = len(self.found)
        sets = self._find(_ASSIGNMENT)
        self._has_pipe = False
        self._pipeline()
        self._blanks()
        is_sure = self._depth == 1 and not self._has_pipe and not self._find(_OR_BACKGROUND)
        if is_sure and sets and len(self.found) == before + 1 and not self.found[-1].words:
            for word in self.found[-1].assignments:
                name, _, text = word.text.partition("=")
                value = Word(text, word.certainty)
                if self._can_bind(name, [value]):
                    self._variables[name] = value
        while self._skip("&&") or self._skip("||"):
            self._blank_lines()
            self._pipeline()
            self._blanks()

    def _pipeline(self) -> None:
        """Read commands that pipes join."""
        while self._take(_PREFIX):
            self._blanks()
        start, source = len(self.found), None
        self._command()
        self._blanks()
        while not self._is_at("||") and self._skip("|"):
            self._skip("&")
            self._blank_lines()
            words = self.found[start].words if len(self.found) > start else ()
            if source is None or not passes_names(words):
                source = words
            start = len(self.found)
            self._command()
            if source and len(self.found) > start and self.found[start].name == "xargs":
                self.found[start] = self.found[start]._replace(source=source)
            self._blanks()
            self._has_pipe = True

    def _command(self) -> None:
        if self._take(_FUNCTION):
            self._unclear("a function is defined")
        if self._is_at("("):
            self._compound("((" if self._is_at("((") else "(")
        elif (keyword := self._find(_KEYWORD)) and keyword[0] in RESERVED:
            self._compound("while" if keyword[0] == "until" else keyword[0])
        else:
            self._simple()

    def _compound(self, word: str) -> None:
        """Read a compound command and its redirections."""
        self.at += len(word)
        readers = {"((": self._arithmetic, "[[": self._test, "case": self._case, "for": self._for, "while": self._while}
        if word in _BRACKETS:
            self.read_list((_BRACKETS[word],))
        elif word == "if":
            while self.read_list(("then", "elif", "else", "fi")) != "fi":
                pass
        elif word in readers:
            readers[word]()
        else:
            raise NotUnderstoodError(f"{word!r} stands where a command begins")
        outer = Subcommand()
        while (redirected := self._redirected(outer)) is not None:
            outer = redirected
        if outer != Subcommand():
            self.found.append(outer)

    def _while(self) -> None:
        start = len(self.found)
        self.read_list(("do",))
        names = {each.name for each in self.found[start:]}
        start = len(self.found)
        self.read_list(("done",))
        if names <= _ALWAYS and not any(each.name in _PAUSES for each in self.found[start:]):
            self._unclear("a loop neither waits nor ends")

    def _for(self) -> None:
        """Read a loop; one over few known words once for each of them."""
        self._blanks()
        name, items = "", list[Word]()
        if self._skip("(("):
            self._arithmetic()
        else:
            name = self._expect(NAME, "a loop needs the name of a variable")[0]
            self._blank_lines()
            items = self._words(self._blanks) if self._closer(("in",)) else [unknown("$@")]
        self._blanks()
        self._skip(";")
        self._blank_lines()
        self._expect(r"do(?=\s)", "'do' is missing")
        assigned = _assigned_from(f"{name}=", items)
        if name and (not is_local(name) or assigned.is_inherited):
            self._note_assignment(assigned)
        start, can_bind = self.at, 0 < len(items) <= MAX_ROUNDS and self._can_bind(name, items)
        for item in items if can_bind else [None]:
            self.at = start
            if item is not None:
                self._variables[name] = item
            self.read_list(("done",))
            self._variables.pop(name, None)

    def _case(self) -> None:
        self._blanks()
        self._word()
        self._blank_lines()
        self._expect(r"in(?=\s)", "'in' is missing")
        while True:
            self._blank_lines()
            if self._closer(("esac",)):
                return
            self._skip("(")
            while True:
                self._blanks()
                if self._word() is None:
                    raise NotUnderstoodError("a pattern of 'case' is missing")
                self._blanks()
                if self._expect(r"[|)]", "a pattern of 'case' is not closed")[0] == ")":
                    break
            if self.read_list((";;&", ";;", ";&", "esac")) == "esac":
                return

    def _test(self) -> None:
        """Read `[[ … ]]`; it calculates with the operands of a comparison of numbers."""
        words = [Word("[[")]
        while True:
            self._blank_lines()
            if self._take(_TEST_OPERATOR):
                continue
            if words[-1].text == "=~":
                words.append(Word(self._expect(_REGEX, "a regular expression is not understood")[0]))
                continue
            start = self.at
            found = self._word()
            if found is None:
                raise NotUnderstoodError("']]' is missing")
            words += found
            if self.text[start : self.at] == "]]":
                break
        for left, operator, right in zip(words, words[1:], words[2:], strict=False):
            if operator.text in _COMPARISONS and not all(self._is_number(each) for each in (left, right)):
                self._unclear("a test calculates with a value that is not known")
        if Word("-v") in words and any("[" in word.text or not word.is_plain for word in words[1:]):
            self._unclear("a test reads a variable that is not known")
        self.found.append(Subcommand(words=tuple(words)))

    def _simple(self) -> None:
        found = Subcommand()
        words: list[Word] = []
        assignments: list[Word] = []
        start = len(self.found)
        while True:
            self._blanks()
            if (redirected := self._redirected(found)) is not None:
                found = redirected
            elif not words and (match := self._take(_ASSIGNMENT)):
                assignments.append(self._assigned(match[0]))
            elif self._find(_SUBSCRIPT) and (not words or words[0].text in _DECLARATIONS):
                raise NotUnderstoodError("an element of an array is assigned")
            elif (more := self._word()) is not None:
                words += more
                if len(words) > MAX_ARGUMENTS:
                    raise NotUnderstoodError("a command has too many words")
            else:
                break
        self._check_split(words)
        if not words and not assignments:
            if found == Subcommand():
                raise NotUnderstoodError("a command is missing")
            words = [Word(":")]  # A redirection alone does what it does for a command without an effect.
        # Substituted commands run first, but are named after the command that they stand in.
        self.found.insert(start, found._replace(words=tuple(words), assignments=tuple(assignments)))

    def _check_split(self, words: list[Word]) -> None:
        """Notice a word of a test that may become several, such as `-v` and an element of an array."""
        if words and words[0].text in ("[", "test"):
            split = (word for word in words if word.certainty is Certainty.UNKNOWN)
            if not all(map(self._is_number, split)):
                self._unclear("a test gets a value that may be several words; quote it")

    def _assigned(self, name: str) -> Word:
        """Read the values behind `name=`."""
        if self._skip("("):
            start = self.at
            values = self._words(self._blank_lines)
            if _ELEMENTS.search(self.text[start : self.at]):
                raise NotUnderstoodError("an element of an array is assigned")
            self._expect(r"\)(?=[\s;&|]|$)", "an array is not closed")
            return _assigned_from(name, values)
        value = self._word() or [Word("")]
        if len(value) > 1:
            return _assigned_from(name, value)
        return Word(name + value[0].text, value[0].certainty)

    def _redirected(self, command: Subcommand) -> Subcommand | None:
        """Read one redirection if there is one, and return the command with it."""
        self._blanks()
        match = self._find(_REDIRECT)
        if match is None or (self.text.startswith("(", match.end()) and match[1] in "<>"):
            return None
        self.at = match.end()
        if self._is_at("!"):
            raise NotUnderstoodError("shells read '!' after a redirection differently")
        if match[1] in ("<<", "<<-"):
            delimiter = self._expect(_DELIMITER, "the end of a here-document is not a plain word")
            tabs = r"\t*" if match[1] == "<<-" else ""
            self.pending.append((f"^{tabs}{delimiter[2] or delimiter[3]}$", delimiter[1] is not None))
            return command
        self._blanks()
        targets = self._word()
        if targets is None or len(targets) != 1:
            raise NotUnderstoodError("a redirection needs one file")
        target = targets[0]
        if target.text.startswith(("/dev/tcp/", "/dev/udp/")):
            self._unclear("a redirection opens a network connection")
        if match[1] == "<<<":
            self._check_input(target)
        is_copy = match[1] in (">&", "<&") and (target.text.rstrip("-").isdigit() or target.text == "-")
        if match[1] == "<<<" or is_copy or (target.is_plain and target.text in _PLUMBING):
            return command
        if match[1] in ("<", "<&"):
            return command._replace(reads=(*command.reads, target))
        appends = (*command.appends, target) if match[1] in (">>", "&>>") else command.appends
        return command._replace(writes=(*command.writes, target), appends=appends)


def _assigned_from(name: str, values: list[Word]) -> Word:
    """Return the assignment of one of some values, of which only is known whether one is from the environment."""
    inherited = inherited_text(values)
    return unknown(name) if inherited is None else Word(name + inherited, Certainty.INHERITED)
