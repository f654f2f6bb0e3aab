"""Shell text taken apart into the commands it would run; for matching only, nothing is ever run from here.

Whatever cannot be told before the shell runs makes the line uncertain: a deny or an ask on commands then holds, and no
allow does. The grammar is tree-sitter's; where it is known to read a text differently from a shell, the text is
uncertain too.
"""

from dataclasses import dataclass, field, replace

import tree_sitter_bash
from tree_sitter import Language, Node, Parser

from agenttool.policy.disputes import WORDS, dispute, is_disputed
from agenttool.policy.words import Certainty, Word, text_of, word_of

MAX_COMMAND = 65_536
"""A longer text is not read; it is uncertain."""

MAX_NESTING = 60
"""How deep commands may stand inside each other."""

_BASH = Language(tree_sitter_bash.language())

RESERVED = frozenset(
    "{ } ! [[ ]] if then else elif fi do done case esac while until for in function select coproc".split()  # noqa: SIM905 -- a list of words reads best as words
)
_PLUMBING = frozenset({"/dev/null", "/dev/stdout", "/dev/stderr", "/dev/stdin", "/dev/tty"})
_WRITES = frozenset({">", ">>", ">|", "&>", "&>>", ">&", "<>"})
# The grammar takes this argument for the operator of a test.
_PARTS = WORDS | {"command_name", "=="}

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
        is_wrapper: whether an allow need not name it: all it does is run commands that are listed beside it, or it is
            only a guess at what another command may run.
    """

    words: tuple[Word, ...] = ()
    assignments: tuple[Word, ...] = ()
    writes: tuple[Word, ...] = ()
    reads: tuple[Word, ...] = ()
    is_wrapper: bool = False

    @property
    def name(self) -> str | None:
        """The command's name, if it is known."""
        return self.words[0].text if self.words and self.words[0].is_plain else None


@dataclass(frozen=True, slots=True, kw_only=True)
class CommandLine:
    """Everything that a text would run.

    Attributes:
        doubts: why the list may be incomplete, for people; none means that an allow may rely on it.
        suspicions: the same about what a listed launcher may run; only a deny or an ask need mind.
    """

    subcommands: tuple[Subcommand, ...] = ()
    doubts: tuple[str, ...] = ()
    suspicions: tuple[str, ...] = ()


def parse_commands(text: str) -> CommandLine:
    """Take a text apart as a shell would, without looking into what its commands run in turn."""
    if len(text) > MAX_COMMAND:
        return CommandLine(doubts=(f"it is longer than {MAX_COMMAND} characters",))
    try:
        source = text.encode()
    except UnicodeEncodeError:
        return CommandLine(doubts=("it is not text in Unicode",))
    root = Parser(_BASH).parse(source).root_node
    reading = _Reading()
    if root.has_error:
        reading.doubt("it does not parse")
    if is_disputed(source, root):
        reading.doubt("it is written so that shells may disagree about its words")
    reading.walk(root, 0)
    return CommandLine(subcommands=tuple(reading.found), doubts=tuple(reading.doubts))


@dataclass(slots=True)
class _Reading:
    """The commands found so far while a tree is walked."""

    found: list[Subcommand] = field(default_factory=list["Subcommand"])
    doubts: dict[str, None] = field(default_factory=dict[str, None])

    def doubt(self, why: str) -> None:
        self.doubts[why] = None

    def walk(self, node: Node, depth: int) -> None:
        """Find every command at or below a node, in the order of the text."""
        if depth > MAX_NESTING:
            return self.doubt(f"it is nested more than {MAX_NESTING} deep")
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
        why = dispute(node)
        if why is not None:
            self.doubt(why)
        listed = _LISTED_WITH.get(node.type, ())
        for child in node.named_children:
            # Some parts were listed with the node; only what is substituted inside them still stands by itself.
            (self._below if child.type in listed else self.walk)(child, depth + 1)

    def _command(self, node: Node, redirects: tuple[Node, ...]) -> None:
        """List a simple command with the redirections that belong to it."""
        own = [child for child in node.children if child.type.endswith("_redirect")]
        words = [word_of(child) for child in node.children if child.type in _PARTS]
        assignments = [_assignment(child) for child in node.children if child.type == "variable_assignment"]
        if node.type != "command":
            words = [Word(text_of(node.children[0])), *words, *assignments]
            assignments = []
        found = _with_redirects(Subcommand(words=tuple(words), assignments=tuple(assignments)), [*own, *redirects])
        if any(word.text.startswith(("/dev/tcp/", "/dev/udp/")) for word in (*found.reads, *found.writes)):
            self.doubt("it opens a network connection by a redirection")
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
                if any(_trailing(redirect) for redirect in redirects):
                    self.doubt("a command goes on after a redirection")
            self._alone(redirects)
        for redirect in redirects:
            self._below(redirect, depth + 1)

    def _alone(self, redirects: list[Node]) -> None:
        """List redirections that belong to no simple command; what follows one is then a command."""
        found = _with_redirects(Subcommand(), redirects)
        if found != Subcommand():
            self.found.append(found)


def _assignment(node: Node) -> Word:
    """Read `NAME=value` as one word."""
    name, value = node.child_by_field_name("name"), node.child_by_field_name("value")
    if node.type != "variable_assignment" or name is None or name.type != "variable_name":
        return Word(text_of(node), Certainty.UNKNOWN)
    word = Word("") if value is None else word_of(value)
    operator = "+=" if any(child.type == "+=" for child in node.children) else "="
    return Word(f"{text_of(name)}{operator}{word.text}", word.certainty)


def _trailing(redirect: Node) -> list[Node]:
    """Give the words that the grammar takes for further targets of a redirection, and a shell for arguments."""
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
    (writes if operator in _WRITES else reads).append(target)
