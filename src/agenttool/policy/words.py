"""Words of a shell: what a piece of command text means once its quotes are taken off."""

import re
from dataclasses import dataclass
from enum import Enum

from tree_sitter import Node

_IN_QUOTES = re.compile(r'\\([$`"\\])')
_OUTSIDE = re.compile(r"\\(.)", re.DOTALL)
_BRACES = re.compile(r"\{.*(?:,|\.\.).*\}")
_CLASS = re.compile(r"\[[!^]?\]?[^\]]*\]")


class Certainty(Enum):
    """How much is known of a word before the shell runs."""

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
        """Tell whether the word is exactly its text."""
        return self.certainty is Certainty.PLAIN


def text_of(node: Node) -> str:
    """Give the source of a node."""
    return (node.text or b"").decode("utf-8", "surrogateescape")


def word_of(node: Node) -> Word:
    """Read a word; what is not a plain quoting is unknown."""
    text = text_of(node)
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
    if _BRACES.search(text) or any(child.type == "word" and set("[]") & set(text_of(child)) for child in node.children):
        return _unknown(text)
    if all(part.is_plain for part in parts):
        return Word(text)
    # A quoted star beside a bare one would be taken for a wildcard: too wide, which a deny can bear and an allow not.
    return Word(text, Certainty.EXPANDS)
