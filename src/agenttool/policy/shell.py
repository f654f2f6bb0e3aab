"""Parse shell text into simple commands with their words, assignments and redirections. Nothing is executed.

The grammar is tree-sitter's. Text that the grammar and a shell may read differently is in doubt: a deny or an ask on
commands then asks, and no allow on commands covers it.
"""

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from enum import Enum
from itertools import pairwise

import tree_sitter_bash
from tree_sitter import Language, Node, Parser

_IN_QUOTES = re.compile(r'\\([$`"\\])')
_OUTSIDE = re.compile(r"\\(.)", re.DOTALL)
_BRACES = re.compile(r"\{.*(?:,|\.\.).*\}")
_CLASS = re.compile(r"\[[!^]?\]?[^\]]*\]")


class Certainty(Enum):
    """How much of a word is known before the shell runs."""

    PLAIN = "plain"
    EXPANDS = "expands"
    """It has wildcards that stand for file names."""
    UNKNOWN = "unknown"
    """It is made when the command runs: a variable, a substitution, braces. It may even be several words, or none."""


@dataclass(frozen=True, slots=True)
class Word:
    """One word of a command."""

    text: str
    certainty: Certainty = Certainty.PLAIN

    @property
    def is_plain(self) -> bool:
        """Return whether the word is exactly its text."""
        return self.certainty is Certainty.PLAIN


def source_of_node(node: Node) -> str:
    """Return the source of a node."""
    return (node.text or b"").decode("utf-8", "surrogateescape")


def word_of(node: Node) -> Word:
    """Return the word of a node; a word that the shell computes is unknown."""
    text = source_of_node(node)
    match node.type:
        case "word" | "number" | "==":
            word = _bare(text)
        case "raw_string":
            word = Word(text[1:-1])
        case "string" if "\\\n" not in text and all(part.type in {'"', "string_content"} for part in node.children):
            word = Word(_IN_QUOTES.sub(r"\1", text[1:-1]))
        case "ansi_c_string" if "\\" not in text:
            word = Word(text[2:-1])
        case "concatenation":
            word = _joined(node)
        case "command_name" if node.named_child_count == 1:
            word = word_of(node.named_children[0])
        case _:
            word = _unknown(text)
    return word


def _unknown(text: str) -> Word:
    return Word(text, Certainty.UNKNOWN)


def _bare(text: str) -> Word:
    if "\\\n" in text or _BRACES.search(text) or re.search(r"(?<!\\)[$`]", text):
        return _unknown(text)
    if "\\" not in text:
        # A class of characters stands for exactly one of them.
        loose = _CLASS.sub("?", text)
        return Word(loose, Certainty.EXPANDS if re.search(r"[*?]", loose) else Certainty.PLAIN)
    # A wildcard beside an escape is too rare to be worth telling apart.
    rest = _OUTSIDE.sub("", text)
    return _unknown(text) if re.search(r"[*?\[]", rest) else Word(_OUTSIDE.sub(r"\1", text))


def _joined(node: Node) -> Word:
    """Join the parts of one word; quotes inside it do not matter, and braces make it unknown."""
    parts = [word_of(child) for child in node.children]
    text = "".join(part.text for part in parts)
    if any(part.certainty is Certainty.UNKNOWN for part in parts):
        return _unknown(text)
    if _BRACES.search(text) or any(
        child.type == "word" and set("[]") & set(source_of_node(child)) for child in node.children
    ):
        return _unknown(text)
    if all(part.is_plain for part in parts):
        return Word(text)
    # A quoted star beside a bare one would be taken for a wildcard: too wide, which a deny can bear and an allow not.
    return Word(text, Certainty.EXPANDS)


WORDS = frozenset(
    """
    word number string raw_string ansi_c_string translated_string concatenation simple_expansion expansion
    command_substitution process_substitution arithmetic_expansion brace_expression extglob_pattern
    """.split()  # noqa: SIM905 -- a list of words reads best as words
)
"""The kinds of node that are one word of a command."""

_PLAIN_NODES = WORDS - {"arithmetic_expansion"} | frozenset(
    """
    program list pipeline subshell compound_statement redirected_statement negated_command comment command command_name
    declaration_command unset_command variable_assignment variable_assignments variable_name special_variable_name
    string_content file_redirect file_descriptor herestring_redirect heredoc_redirect heredoc_start heredoc_body
    heredoc_content heredoc_end if_statement elif_clause else_clause for_statement while_statement do_group test_command
    unary_expression test_operator
    """.split()  # noqa: SIM905 -- as above
)
"""The kinds of node that every shell parses alike, unless `_is_odd` objects. Any other kind is in doubt."""

_DECLARATIONS = frozenset({"export", "declare", "typeset", "local", "readonly", "unset", "unsetenv", "variable_name"})
_COMMAND_PARTS = WORDS | {"command_name", "variable_assignment"}
_CHILDREN = _COMMAND_PARTS | _DECLARATIONS | {"==", "file_redirect", "herestring_redirect", "heredoc_redirect"}
_AMBIGUOUS_TEXT = re.compile(
    rb"""
      (?<![ \t])\\\n | \\\n(?![ \t]*[^\s\\])        # a line joined anywhere but between two words
    | \n[ \t]*\\                                    # an escape that begins a line
    | (?<![\w./-])\\[ \t] | \\[ \t](?![\w./-])      # an escaped space that begins or ends a word
    | \$(?=[\s;&|)<>]|$)                            # a dollar that stands alone
    | \$\(\(                                        # arithmetic, which may run what a variable holds
    | \#[^\n]*\\\n                                  # a comment that looks as if it went on
    | [\r\0]
    """,
    re.VERBOSE,
)
_VARIABLE = re.compile(rb"^[A-Za-z_][A-Za-z0-9_]*$")
_DELIMITER = re.compile(rb"""^(?P<quote>["'])(?P<name>[A-Za-z_][A-Za-z0-9_]*)(?P=quote)$""")


def is_ambiguous(source: bytes, root: Node) -> bool:
    """Return whether text outside of quotes may be parsed differently by a shell."""
    if _AMBIGUOUS_TEXT.search(source) is None:
        return False
    bare = bytearray(source)
    for node in _quoted(root):
        bare[node.start_byte : node.end_byte] = b"x" * (node.end_byte - node.start_byte)
    return _AMBIGUOUS_TEXT.search(bare) is not None


def _quoted(root: Node) -> Iterator[Node]:
    todo = [root]
    while todo:
        node = todo.pop()
        is_plain = all(child.type in {'"', "string_content", "heredoc_content"} for child in node.children)
        if node.type == "raw_string" or (node.type in {"string", "heredoc_body"} and is_plain):
            yield node
        else:
            todo += node.children


def _is_odd_command(node: Node) -> bool:
    """Return whether a command has parts that are not words, or that are not separated by blanks."""
    source, start = node.text or b"", node.start_byte
    if any(child.type not in _CHILDREN for child in node.children):
        return True
    for left, right in pairwise(node.children):
        gap = source[left.end_byte - start : right.start_byte - start]
        if gap.replace(b"\\\n", b"").strip(b" \t") or (not gap and right.type in _COMMAND_PARTS):
            return True
    return False


def _touches(node: Node) -> bool:
    """Return whether two words after a redirection are adjacent, so that a shell reads one word."""
    words = node.children_by_field_name("destination")
    return any(left.end_byte == right.start_byte for left, right in pairwise(words))


def _is_odd_heredoc(node: Node) -> bool:
    """Return whether a here-document may end elsewhere than parsed; a bare delimiter lets it run commands."""
    parts = {child.type: child for child in node.children}
    start, end, operator = (parts.get(name) for name in ("heredoc_start", "heredoc_end", "<<"))
    if start is None or end is None or operator is None or operator.text != b"<<":
        return True
    name = _DELIMITER.match(start.text or b"")
    touched = any(child.start_byte == start.end_byte for child in node.children)
    after = node.next_sibling
    goes_on = after is not None and after.is_named and after.start_byte == node.end_byte
    return name is None or touched or goes_on or (end.text or b"").strip() != name["name"]


def _is_odd_comment(node: Node) -> bool:
    before = node.prev_sibling
    return before is not None and before.is_named and before.end_byte == node.start_byte


def _is_odd_assignment(node: Node) -> bool:
    name = node.child_by_field_name("name")
    if name is not None and name.type == "subscript":
        name = name.child_by_field_name("name")
    return name is None or not _VARIABLE.match(name.text or b"")


def _has_gap(node: Node) -> bool:
    return any(left.end_byte != right.start_byte for left, right in pairwise(node.children))


_SUBSCRIPT = re.compile(r"\[[^\]]*(?:\$\(|\$\{|`)")
"""A subscript such as `a[$(command)]`, which a shell runs if it reads the text as a variable."""

_ODD_NODES: dict[str, Callable[[Node], bool]] = {
    "command": _is_odd_command,
    "declaration_command": _is_odd_command,
    "unset_command": _is_odd_command,
    "file_redirect": _touches,
    "concatenation": _has_gap,
    "variable_assignment": _is_odd_assignment,
    "heredoc_redirect": _is_odd_heredoc,
    "comment": _is_odd_comment,
}
_ODD_TEXTS = {
    "test_command": re.compile(rb"^\[\[|^\[[^\n&|;<>()`]*[\n&|;<>()`]"),  # more than a test
    "word": re.compile(rb"(?<!\\)\s"),
    "file_descriptor": re.compile(rb"^(?![0-9]+$|\{[A-Za-z_][A-Za-z0-9_]*\}$)"),
    "compound_statement": re.compile(rb"^\{\S|^\(\("),  # a brace that is part of a word, or arithmetic
    "negated_command": re.compile(rb"^!\S"),
    "expansion": re.compile(rb"@[A-Za-z]\}$|^\$\{[^}:]+:\s*[A-Za-z_$(]"),  # runs what a variable holds
    "command_substitution": re.compile(rb"^`[^\\]*\\"),  # backquotes inside backquotes
}


def _is_odd(node: Node) -> bool:
    """Return whether a shell may parse one node differently."""
    if node.type in WORDS and (word := word_of(node)).is_plain and _SUBSCRIPT.search(word.text):
        return True
    check, text = _ODD_NODES.get(node.type), _ODD_TEXTS.get(node.type)
    return (
        node.type not in _PLAIN_NODES
        or (check is not None and check(node))
        or (text is not None and text.search(node.text or b"") is not None)
    )


MAX_COMMAND = 65_536
"""A longer text is not read; it is uncertain."""

MAX_NESTING = 60
"""How deep commands may stand inside each other."""

_BASH = Language(tree_sitter_bash.language())

RESERVED = frozenset(
    "{ } ! [[ ]] if then else elif fi do done case esac while until for in function select coproc".split()  # noqa: SIM905 -- a list of words reads best as words
)
_PLUMBING = frozenset({"/dev/null", "/dev/stdout", "/dev/stderr", "/dev/stdin", "/dev/tty"})
_WRITE_OPERATORS = frozenset({">", ">>", ">|", "&>", "&>>", ">&", "<>"})
# The grammar takes this argument for the operator of a test.
_WORD_NODES = WORDS | {"command_name", "=="}

_LISTED_WITH = {
    "command": {"variable_assignment", "file_redirect", "herestring_redirect", "heredoc_redirect"},
    "declaration_command": {"variable_assignment"},
    "variable_assignments": {"variable_assignment"},
    "heredoc_redirect": {"file_redirect"},
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Subcommand:
    """One command of a line.

    Attributes:
        words: its name and arguments; empty for a redirection or an assignment that stands alone.
        writes: files that its redirections write to.
        reads: files that its redirections read.
        is_wrapper: whether an allow need not name it: it only runs commands that are listed beside it, or an allow
            names the command that runs it.
        is_opaque: whether it may run commands that are not listed.
    """

    words: tuple[Word, ...] = ()
    assignments: tuple[Word, ...] = ()
    writes: tuple[Word, ...] = ()
    reads: tuple[Word, ...] = ()
    is_wrapper: bool = False
    is_opaque: bool = False

    @property
    def name(self) -> str | None:
        """The command's name, if it is known."""
        return self.words[0].text if self.words and self.words[0].is_plain else None


@dataclass(frozen=True, slots=True, kw_only=True)
class CommandLine:
    """The commands of one text.

    Attributes:
        text: the text itself.
        is_in_doubt: whether the list may be incomplete; an allow then does not rely on it.
    """

    text: str = ""
    subcommands: tuple[Subcommand, ...] = ()
    is_in_doubt: bool = False


def parse_commands(text: str) -> CommandLine:
    """Parse a text into its simple commands, without the commands that these run."""
    try:
        source = text.encode()
    except UnicodeEncodeError:
        return CommandLine(text=text, is_in_doubt=True)
    if len(text) > MAX_COMMAND:
        return CommandLine(text=text, is_in_doubt=True)
    root = Parser(_BASH).parse(source).root_node
    reading = _CommandWalk(is_in_doubt=root.has_error or is_ambiguous(source, root))
    reading.walk(root, 0)
    return CommandLine(text=text, subcommands=tuple(reading.found), is_in_doubt=reading.is_in_doubt)


@dataclass(slots=True)
class _CommandWalk:
    """The commands found so far while a tree is walked."""

    found: list[Subcommand] = field(default_factory=list["Subcommand"])
    is_in_doubt: bool = False

    def walk(self, node: Node, depth: int) -> None:
        """Find every command at or below a node, in the order of the text."""
        if depth > MAX_NESTING:
            self.is_in_doubt = True
            return None
        match node.type:
            case "command" | "declaration_command" | "unset_command":
                self._command(node, ())
            case "variable_assignment":
                self.found.append(Subcommand(assignments=(_assignment(node),)))
            case "variable_assignments":
                self.found.append(Subcommand(assignments=tuple(map(_assignment, node.named_children))))
            case "redirected_statement":
                return self._redirected(node, depth)
            case "file_redirect":
                self._alone([node])
            case _:
                pass
        return self._below(node, depth)

    def _below(self, node: Node, depth: int) -> None:
        self.is_in_doubt = self.is_in_doubt or _is_odd(node)
        listed = _LISTED_WITH.get(node.type, ())
        for child in node.named_children:
            # Some parts were listed with the node; only what is substituted inside them still stands by itself.
            (self._below if child.type in listed else self.walk)(child, depth + 1)

    def _command(self, node: Node, redirects: tuple[Node, ...]) -> None:
        """List a simple command with the redirections that belong to it."""
        own = [child for child in node.children if child.type.endswith("_redirect")]
        words = [word_of(child) for child in node.children if child.type in _WORD_NODES]
        assignments = [_assignment(child) for child in node.children if child.type == "variable_assignment"]
        if node.type != "command":
            words = [Word(source_of_node(node.children[0])), *words, *assignments]
            assignments = []
        found = _with_redirects(Subcommand(words=tuple(words), assignments=tuple(assignments)), [*own, *redirects])
        # A redirection to such a file opens a network connection.
        files = (*found.reads, *found.writes)
        self.is_in_doubt = self.is_in_doubt or any(word.text.startswith(("/dev/tcp/", "/dev/udp/")) for word in files)
        self.found.append(found)

    def _redirected(self, node: Node, depth: int) -> None:
        redirects = [child for child in node.named_children if child.type.endswith("_redirect")]
        body = node.child_by_field_name("body")
        if body is not None and body.type == "command":
            self._command(body, tuple(redirects))
            self._below(body, depth + 1)
        else:
            if body is not None:
                self.walk(body, depth + 1)
                self.is_in_doubt = self.is_in_doubt or any(_trailing(redirect) for redirect in redirects)
            self._alone(redirects)
        for redirect in redirects:
            self._below(redirect, depth + 1)

    def _alone(self, redirects: list[Node]) -> None:
        """List redirections that belong to no simple command; words after them are a command."""
        found = _with_redirects(Subcommand(), redirects)
        if found != Subcommand():
            self.found.append(found)


def _assignment(node: Node) -> Word:
    """Return `NAME=value` as one word."""
    name, value = node.child_by_field_name("name"), node.child_by_field_name("value")
    if node.type != "variable_assignment" or name is None or name.type != "variable_name":
        return Word(source_of_node(node), Certainty.UNKNOWN)
    word = Word("") if value is None else word_of(value)
    operator = "+=" if any(child.type == "+=" for child in node.children) else "="
    return Word(f"{source_of_node(name)}{operator}{word.text}", word.certainty)


def _trailing(redirect: Node) -> list[Node]:
    """Return the words that the grammar parses as targets of a redirection, and a shell as arguments."""
    targets = redirect.children_by_field_name("destination")[1:] if redirect.type == "file_redirect" else []
    arguments = redirect.children_by_field_name("argument") if redirect.type == "heredoc_redirect" else []
    return [*targets, *arguments]


def _with_redirects(subcommand: Subcommand, redirects: list[Node]) -> Subcommand:
    writes: list[Word] = []
    reads: list[Word] = []
    words: list[Word] = []
    for redirect in redirects:
        words += [word_of(node) for node in _trailing(redirect)]
        inner = redirect.children_by_field_name("redirect") if redirect.type == "heredoc_redirect" else []
        for each in [redirect, *inner]:
            if each.type == "file_redirect":
                _add_target(each, writes, reads)
    return replace(
        subcommand, words=(*subcommand.words, *words), writes=(*subcommand.writes, *writes), reads=tuple(reads)
    )


def _add_target(redirect: Node, writes: list[Word], reads: list[Word]) -> None:
    targets = redirect.children_by_field_name("destination")
    operator = next((child.type for child in redirect.children if not child.is_named), "")
    if not targets or targets[0].type == "process_substitution":
        return
    target = word_of(targets[0])
    is_copy = operator in {">&", "<&"} and (target.text.rstrip("-").isdigit() or target.text == "-")
    if is_copy or (target.is_plain and target.text in _PLUMBING):
        return
    (writes if operator in _WRITE_OPERATORS else reads).append(target)
