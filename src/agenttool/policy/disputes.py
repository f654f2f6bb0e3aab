"""Where the grammar and a shell are known to read a text differently; found by running both side by side.

Each of these could hide a command from one of the two, so a text that has one is in doubt. Inside quotes none of them
matters: up to the first dispute both agree about what is quoted.
"""

import re
from collections.abc import Callable, Iterator
from itertools import pairwise

from tree_sitter import Node

from agenttool.policy.words import word_of

WORDS = frozenset(
    """
    word number string raw_string ansi_c_string translated_string concatenation simple_expansion expansion
    command_substitution process_substitution arithmetic_expansion brace_expression extglob_pattern
    """.split()  # noqa: SIM905 -- a list of words reads best as words
)
"""The kinds of node that are one word of a command."""

_PARTS = WORDS | {"command_name", "variable_assignment"}
_CHILDREN = _PARTS | {"==", "file_redirect", "herestring_redirect", "heredoc_redirect"}
_TEXT = re.compile(
    rb"""
      (?<![ \t])\\\n | \\\n(?![ \t]*[^\s\\])        # a line joined anywhere but between two words
    | \n[ \t]*\\                                    # an escape that begins a line
    | (?<![\w./-])\\[ \t] | \\[ \t](?![\w./-])      # an escaped space that begins or ends a word
    | \$(?=[\s;&|)<>]|$|\(\()                        # a dollar that stands alone, or before two brackets
    | \#[^\n]*\\\n                                  # a comment that looks as if it went on
    | [\r\0]
    """,
    re.VERBOSE,
)
_VARIABLE = re.compile(rb"^[A-Za-z_][A-Za-z0-9_]*$")
_DELIMITER = re.compile(rb"""^(?P<quote>["']?)\\?(?P<name>[A-Za-z_][A-Za-z0-9_]*)(?P=quote)$""")


def is_disputed(source: bytes, root: Node) -> bool:
    """Tell whether a text has something outside of quotes that shells may read otherwise than it was parsed."""
    if _TEXT.search(source) is None:
        return False
    bare = bytearray(source)
    for node in _quoted(root):
        bare[node.start_byte : node.end_byte] = b"x" * (node.end_byte - node.start_byte)
    return _TEXT.search(bare) is not None


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
    """Look at the parts of a command: all must be words, none may touch, and nothing else stand between them."""
    source, start = node.text or b"", node.start_byte
    if any(child.type not in _CHILDREN for child in node.children):
        return True
    for left, right in pairwise(node.children):
        gap = source[left.end_byte - start : right.start_byte - start]
        if gap.replace(b"\\\n", b"").strip(b" \t") or (not gap and right.type in _PARTS):
            return True
    return False


def _touches(node: Node) -> bool:
    """Tell whether two words after a redirection have nothing between them, so that a shell takes them for one."""
    words = node.children_by_field_name("destination")
    return any(left.end_byte == right.start_byte for left, right in pairwise(words))


def _spans_lines(node: Node) -> bool:
    """Tell whether a line ends between the parts of a node, where a shell would end the command."""
    source, start = node.text or b"", node.start_byte
    gaps = (source[a.end_byte - start : b.start_byte - start] for a, b in pairwise(node.children))
    return any(b"\n" in gap.replace(b"\\\n", b"") for gap in gaps)


def _is_odd_heredoc(node: Node) -> bool:
    """Tell whether a text inside the text may end elsewhere than the grammar thinks, or run what it does not see."""
    parts = {child.type: child for child in node.children}
    start, end, operator = (parts.get(name) for name in ("heredoc_start", "heredoc_end", "<<"))
    operator = operator or parts.get("<<-")
    if start is None or end is None or operator is None or operator.text not in (b"<<", b"<<-"):
        return True
    name = _DELIMITER.match(start.text or b"")
    touched = any(child.start_byte == start.end_byte for child in node.children)
    after = node.next_sibling
    goes_on = after is not None and after.is_named and after.start_byte == node.end_byte
    ends_elsewhere = name is None or touched or goes_on or (end.text or b"").strip() != name["name"]
    return ends_elsewhere or _runs_unseen(start, parts.get("heredoc_body"))


def _runs_unseen(start: Node, body: Node | None) -> bool:
    """Tell whether a shell would run something in a text that the grammar takes for nothing but text."""
    if body is None or re.search(rb"[\"'\\]", start.text or b""):
        return False
    rest = bytearray(body.text or b"")
    for seen in body.children:
        if seen.type != "heredoc_content":
            here = slice(seen.start_byte - body.start_byte, seen.end_byte - body.start_byte)
            rest[here] = b"x" * (here.stop - here.start)
    return b"`" in rest or b"$(" in rest


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


def _says(pattern: bytes) -> Callable[[Node], bool]:
    found = re.compile(pattern)
    return lambda node: found.search(node.text or b"") is not None


_SUBSCRIPT = re.compile(r"\[[^\]]*(?:\$\(|\$\{|`)")
_RUNS_SUBSCRIPT = "it has a subscript that a shell may run"


def _hides_subscript(node: Node) -> bool:
    """Tell whether a quoted text looks like `a[$(command)]`: wherever a shell takes it for a variable, it runs that."""
    word = word_of(node)
    return word.is_plain and _SUBSCRIPT.search(word.text) is not None


def _is_odd_word(node: Node) -> bool:
    return re.search(rb"(?<!\\)\s", node.text or b"") is not None or _hides_subscript(node)


def _is_odd_concatenation(node: Node) -> bool:
    return _has_gap(node) or _hides_subscript(node)


_RECKONS = "it reckons with a variable, whose value a shell may run"
_COMPARISONS = (b"-eq", b"-ne", b"-lt", b"-le", b"-gt", b"-ge")
_COUNTS = re.compile(rb"^for\s*\(\(\s*(\w+)\s*=\s*\d+\s*;\s*\1\s*[<>!=]=?\s*\d+\s*;\s*\1(?:\+\+|--|[+-]=\d+)\s*\)\)")


def _is_odd_compound(node: Node) -> bool:
    """Tell whether `((z))` reckons with what a variable holds: `a[$(command)]` is run; or a brace is no brace."""
    return re.match(rb"\{\S|\(\((?=[^)]*[A-Za-z_$`])", node.text or b"") is not None


def _is_odd_loop(node: Node) -> bool:
    return _COUNTS.match(node.text or b"") is None


def _is_odd_comparison(node: Node) -> bool:
    """Tell whether `[[ $z -eq 1 ]]` reckons with what is no number; `[ $z -eq 1 ]` refuses to."""
    operator = node.child_by_field_name("operator")
    if operator is None or operator.text not in _COMPARISONS:
        return False
    outer = node.parent
    while outer is not None and outer.type != "test_command":
        outer = outer.parent
    sides = (node.child_by_field_name(side) for side in ("left", "right"))
    is_plain = all(side is not None and side.type == "number" for side in sides)
    return not is_plain and outer is not None and (outer.text or b"").startswith(b"[[")


_ODD: dict[str, tuple[Callable[[Node], bool], str]] = {
    "command": (_is_odd_command, "something stands between the words of a command"),
    "declaration_command": (_spans_lines, "a line ends in the middle of a command"),
    "unset_command": (_spans_lines, "a line ends in the middle of a command"),
    "test_command": (_says(rb"^\[(?!\[)[^\n&|;<>()]*[\n&|;<>()]"), "a test has more in it than a test"),
    "file_redirect": (_touches, "two words after a redirection touch"),
    "concatenation": (_is_odd_concatenation, "a word has a gap, or a subscript that a shell may run"),
    "word": (_is_odd_word, "a word has a space, or a subscript that a shell may run"),
    "raw_string": (_hides_subscript, _RUNS_SUBSCRIPT),
    "string": (_hides_subscript, _RUNS_SUBSCRIPT),
    "ansi_c_string": (_hides_subscript, _RUNS_SUBSCRIPT),
    "variable_assignment": (_is_odd_assignment, "it sets what is no variable"),
    "heredoc_redirect": (_is_odd_heredoc, "it is unclear where a text inside it ends, or what that runs"),
    "comment": (_is_odd_comment, "a comment touches what stands before it"),
    "file_descriptor": (_says(rb"^(?![0-9]+$|\{[A-Za-z_][A-Za-z0-9_]*\}$)"), "it redirects what is no file"),
    "compound_statement": (_is_odd_compound, f"a brace has no space after it, or {_RECKONS}"),
    "c_style_for_statement": (_is_odd_loop, _RECKONS),
    "binary_expression": (_is_odd_comparison, _RECKONS),
    "negated_command": (_says(rb"^!\S"), "an exclamation mark has no space after it"),
    "expansion": (_says(rb"@[A-Za-z]\}$|^\$\{[^}:]+:\s*[A-Za-z_$(]"), "it runs what a variable holds"),
    "command_substitution": (_says(rb"^`[^\\]*\\"), "it has backquotes inside backquotes"),
}


def dispute(node: Node) -> str | None:
    """Say why a shell may take one node for something else; nothing if it would not."""
    is_odd, why = _ODD.get(node.type, (None, None))
    return why if is_odd is not None and is_odd(node) else None
