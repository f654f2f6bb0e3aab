"""The scripts of `sed`, `awk` and `jq` that only transform text.

Each script is split into tokens. One that has a token outside of a small grammar, or a name that is not listed, is not
understood: it may run a program, write a file or read the environment.
"""

import re
from collections.abc import Callable

MAX_SCRIPT = 1000

# A delimiter within a bracket expression does not end the pattern. Backslashes before brackets are read differently by
# different versions of sed, so they are not understood.
_SED_BRACKET = r"\[\^?+\]?+(?:\[:\w+:\]|[^\[\]\\\n]|\\[^\[\]\n])*+\]"
_SED_ADDRESS = rf"(?:\d+|\$|/(?:[^/\[\\\n]|\\.|{_SED_BRACKET})*/I?|[+~]\d+)"
_SED_COMMAND = re.compile(
    rf"[\s;{{}}]*(?:{_SED_ADDRESS}(?:\s*,\s*{_SED_ADDRESS}|~\d+)?\s*!?\s*)?(?:"
    r"[={}dDgGhHlnNpPqQxz]\d*|[aic](?:\\\n|\\?[ \t])[^\n]*|:[a-z]+|[bt] ?[a-z]*"
    rf"|s([/|#,:@!%_+])(?:(?!\1)[^\[\\\n]|\\.|{_SED_BRACKET})*\1(?:(?!\1)[^\\\n]|\\.)*\1[gpiIM\d]*"
    r"|y([/|#,:@!%_+])(?:(?!\2)[^\[\\\n]|\\.)*\2(?:(?!\2)[^\\\n]|\\.)*\2"
    r")\s*(?=[;}\n]|$|(?<=\{))[;\s]*"
)


def is_plain_sed(script: str) -> bool:
    """Return whether a sed script only edits text: it neither runs commands nor reads or writes other files."""
    if len(script) > MAX_SCRIPT:
        return False
    script, at = re.sub(r"[ \t]{2,}", " ", script), 0
    while at < len(script):
        match = _SED_COMMAND.match(script, at)
        if match is None or match.end() == at:
            return False
        at = match.end()
    return True


_AWK_TOKEN = re.compile(
    r"""(?P<blank>[ \t\n]+|\#[^\n]*)|(?P<string>"(?:[^"\\\n]|\\[^\n])*")|(?P<number>\d+\.?\d*(?:[eE][-+]?\d+)?|\.\d+)"""
    r"""|(?P<name>[A-Za-z_]\w*)|(?P<operator>\|\||&&|\+\+|--|[-+*/%^=!<>]=|!~|[-+*%^=!<>~?:,;(){}\[\]$])|(?P<slash>/)"""
)
_AWK_REGEX = re.compile(r"/(?:[^/\\\[\n]|\\[^\n]|\[\^?+\]?+(?:[^\]\\\n]|\\[^\n])*+\])*+/")
_AWK_FUNCTIONS = frozenset(
    """
    length substr index split sub gsub match sprintf tolower toupper int sqrt exp log sin cos atan2 rand srand strftime
    systime gensub asort asorti mktime
    """.split()  # noqa: SIM905 -- a list of words reads best as words
)
_AWK_KEYWORDS = frozenset("if else while for do in print printf next exit break continue delete BEGIN END".split())  # noqa: SIM905 -- as above
_AWK_VARIABLES = frozenset("NF NR FNR FS OFS RS ORS FILENAME RSTART RLENGTH SUBSEP IGNORECASE OFMT".split())  # noqa: SIM905 -- as above
_AWK_UNCLEAR = frozenset({")", "++", "--"})
_AWK_FORBIDDEN = frozenset("system getline close fflush function func nextfile switch case default".split())  # noqa: SIM905 -- as above


def is_plain_awk(script: str) -> bool:
    """Return whether an awk program only reads its input and prints to its output."""
    if len(script) > MAX_SCRIPT:
        return False
    at, depth, print_depth, before = 0, 0, -1, ""
    while at < len(script):
        match = _awk_token(script, at, before)
        if match is None:
            return False
        kind, text = match.lastgroup, match[0]
        depth += (text == "(") - (text == ")")
        if text in ("print", "printf"):
            print_depth = depth
        elif text in (";", "}", "{"):
            print_depth = -1
        elif text.startswith(">") and print_depth >= depth:
            return False
        at = match.end()
        if kind != "blank":
            before = text if kind is not None else "]"
        elif "\n" in text:
            before = "\n"
    return True


def _awk_token(script: str, at: int, before: str) -> re.Match[str] | None:
    """Return the next token, where no group matches a regular expression; None if it is not understood."""
    match = _AWK_TOKEN.match(script, at)
    if match is None or (match.lastgroup == "name" and not _is_plain_awk_name(match[0], script[match.end() :][:1])):
        return None
    if match[0] not in ("/", "/=") or _is_awk_operand(before):
        return match
    return None if before in _AWK_UNCLEAR or before in _AWK_FUNCTIONS else _AWK_REGEX.match(script, at)


def _is_awk_operand(text: str) -> bool:
    """Return whether a slash after a token divides; otherwise it begins a regular expression."""
    is_word = text[:1] == '"' or (text[:1].isalnum() or text[:1] == "_")
    return text == "]" or (is_word and text not in _AWK_KEYWORDS and text not in _AWK_FUNCTIONS)


def _is_plain_awk_name(name: str, following: str) -> bool:
    if name in _AWK_FORBIDDEN:
        return False
    if following == "(":
        return name in _AWK_FUNCTIONS or name in _AWK_KEYWORDS
    return not name.isupper() or len(name) == 1 or name in _AWK_VARIABLES or name in _AWK_KEYWORDS


_JQ_TOKEN = re.compile(
    r"""(?P<blank>[ \t\n]+)|(?P<string>"(?:[^"\\]|\\.)*")|(?P<number>\d+\.?\d*)|(?P<field>\.[A-Za-z_]\w*|\.\.?)"""
    r"""|(?P<variable>\$[A-Za-z_]\w*)|(?P<format>@(?:csv|tsv|json|text|base64d?|html)\b)|(?P<name>[A-Za-z_]\w*)"""
    r"""|(?P<operator>//=?|\|=|[-+*/%]=|[=!<>]=|[-+*/%=<>|,:;?(){}\[\]])""",
    re.DOTALL,
)
_JQ_NAMES = frozenset(
    """
    map select keys keys_unsorted values length has in del to_entries from_entries with_entries add any all flatten
    range floor ceil round sqrt pow log min max min_by max_by unique unique_by group_by sort sort_by reverse contains
    inside startswith endswith ltrimstr rtrimstr explode implode split join ascii_downcase ascii_upcase recurse tojson
    fromjson tonumber tostring type empty not and or if then elif else end as test match capture scan sub gsub paths
    path leaf_paths getpath setpath first last nth limit until while repeat index indices transpose input_line_number
    walk todate fromdate now strftime strptime mktime gmtime isvalid null true false arrays objects iterables booleans
    numbers normals strings nulls scalars error try catch reduce foreach map_values combinations ascii tojson infinite
    nan isnan abs any splits trim ltrim rtrim getpath pick have_literal_numbers toarray
    """.split()  # noqa: SIM905 -- as above
)
_JQ_OPENING, _JQ_CLOSING = frozenset("([{"), frozenset(")]}")
_JQ_INNER = re.compile(r"\\\(([^()]*(?:\([^()]*\)[^()]*)*)\)")


def is_plain_jq(script: str) -> bool:
    """Return whether a jq filter only transforms its input: it reads no environment, no other file and no module."""
    if len(script) > MAX_SCRIPT:
        return False
    found: list[tuple[str, str]] = [("", "")]
    at = 0
    while at < len(script):
        match = _JQ_TOKEN.match(script, at)
        if match is None:
            return False
        if match.lastgroup != "blank":
            found.append((str(match.lastgroup), match[0]))
        at = match.end()
    brackets: list[str] = []
    for (_, before), (kind, text), (_, after) in zip(found, found[1:], [*found[2:], ("", "")], strict=False):
        if text in _JQ_OPENING:
            brackets.append(text)
        elif text in _JQ_CLOSING:
            del brackets[-1:]
        is_key = brackets[-1:] == ["{"] and before in ("{", ",") and after in (":", ",", "}")
        if not (is_key and kind == "name") and not _is_plain_jq_token(kind, text):
            return False
    return True


def _is_plain_jq_token(kind: str, text: str) -> bool:
    if kind == "string":
        inner = _JQ_INNER.findall(text)
        return len(inner) == text.count("\\(") and all('"' not in each and is_plain_jq(each) for each in inner)
    if kind == "variable":
        return text != "$ENV" and not text.startswith("$__")
    return kind != "name" or text in _JQ_NAMES


SCRIPT_CHECKS: dict[str, Callable[[str], bool]] = {"sed": is_plain_sed, "awk": is_plain_awk, "jq": is_plain_jq}
"""The check of each language, by the role of a value in `programs.toml`."""
