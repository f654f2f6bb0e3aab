"""Display scripts: Rhai that shows a call in a line, and surely as text.

Of a script that yields something else, or fails, a runtime shows nothing. So a script is read before it is served, and
kept to what cannot fail: texts, also with `${…}` in them, `+`, `let`, `if` with `==` and `!=`, and what is in `args`.
Nothing is run.
"""

import re

from agenttool.errors import ConfigError
from agenttool.records import JsonObject

_TOKEN = re.compile(
    r"""\s*("(?:[^"\\]|\\.)*"|`[^`]*`|\d+(?:\.\d+)?|[A-Za-z_]\w*|&&|\|\||[=!]=|[-+!=.;(){}\[\]])""", re.DOTALL
)
_INSIDE = re.compile(r"\$\{([^}]*)\}")
_WORDS = frozenset({"if", "else", "let", "args"})


def check_script(script: str, schema: JsonObject) -> None:
    """Refuse a script that is not sure to yield a text for all arguments that fit a schema.

    Raises:
        ConfigError: it yields something else, or nobody can tell.
    """
    if not _Reading(script, _sure_texts(schema), {}).whole():
        raise _unsure("it may yield something that is no text")


def _sure_texts(schema: JsonObject) -> frozenset[str]:
    """Name the arguments that are there in every call, and are texts."""
    members, required = schema.get("properties"), schema.get("required")
    if not isinstance(members, dict) or not isinstance(required, list):
        return frozenset()
    texts = {name for name, each in members.items() if isinstance(each, dict) and each.get("type") == "string"}
    return frozenset(texts.intersection(map(str, required)))


def _unsure(why: str) -> ConfigError:
    return ConfigError(f"display_script must yield a text, and {why}; write one such as '\"bed \" + args.bed'")


class _Reading:
    """One pass over a script; each method reads a piece, and those of values tell whether it is sure to be a text."""

    def __init__(self, script: str, texts: frozenset[str], known: dict[str, bool]) -> None:
        self._script = script.rstrip()
        self._at = 0
        self._texts = texts
        self._known = dict(known)

    def whole(self) -> bool:
        is_text = self._block()
        if self._next:
            raise self._odd()
        return is_text

    @property
    def _next(self) -> str:
        token = _TOKEN.match(self._script, self._at)
        if token is None and self._at < len(self._script):
            raise self._odd()
        return "" if token is None else token[1]

    def _take(self, *expected: str) -> str:
        token = self._next
        if not token or (expected and token not in expected):
            raise self._odd()
        self._at = self._script.index(token, self._at) + len(token)
        return token

    def _odd(self) -> ConfigError:
        return _unsure(f"this one goes on with {self._script[self._at :].strip()[:20]!r}, which may be none or fail")

    def _block(self) -> bool:
        """Read definitions, and what the block yields."""
        before = dict(self._known)
        while self._next == "let":
            self._take("let")
            name = self._take()
            self._take("=")
            self._known[name] = self._value()
            self._take(";")
        is_text = self._value()
        self._known = before
        return is_text

    def _value(self) -> bool:
        return self._choice() if self._next == "if" else self._sum()

    def _choice(self) -> bool:
        self._take("if")
        self._condition()
        is_text = self._braced()
        self._take("else")
        return (self._choice() if self._next == "if" else self._braced()) and is_text

    def _braced(self) -> bool:
        self._take("{")
        is_text = self._block()
        self._take("}")
        return is_text

    def _condition(self) -> None:
        self._comparison()
        while self._next in {"&&", "||"}:
            self._take()
            self._comparison()

    def _comparison(self) -> None:
        if self._next == "!":
            self._take("!")
            self._braces()
        elif self._next == "(":
            self._braces()
        else:
            self._compared()

    def _braces(self) -> None:
        self._take("(")
        self._condition()
        self._take(")")

    def _compared(self) -> None:
        self._sum()
        self._take("==", "!=")
        self._sum()

    def _sum(self) -> bool:
        """Read what is put together: a text and anything else is a text, and of two other things nobody can tell."""
        is_text = self._piece()
        while self._next == "+":
            odd = self._odd()
            self._take("+")
            is_text = self._piece() or is_text
            if not is_text:
                raise odd
        return is_text

    def _piece(self) -> bool:
        if self._next == "(":
            self._take("(")
            is_text = self._value()
            self._take(")")
            return is_text
        odd, word = self._odd(), self._take()
        if word[0] in '"`':
            for inside in _INSIDE.findall(word) if word[0] == "`" else ():
                _Reading(inside, self._texts, self._known).whole()
            return True
        if word == "args":
            return self._argument() in self._texts
        if word in _WORDS or not (word in self._known or word in {"true", "false"} or word[0].isdigit()):
            raise odd
        return self._known.get(word, False)

    def _argument(self) -> str:
        if self._take(".", "[") == ".":
            return self._take()
        name = self._take().strip('"')
        self._take("]")
        return name
