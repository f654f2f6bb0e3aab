"""Parameters as text in the styles of the specification, percent-encoded within URLs."""

import re
from collections.abc import Iterable
from typing import NamedTuple
from urllib.parse import quote, unquote

from agenttool.adapters.openapi.operations import FORM, ApiParameter, is_json
from agenttool.codec import write_own
from agenttool.records import Json

_RESERVED = ":/?#[]@!$&'()*+,;="
_SEPARATOR = re.compile(r"[/\\]")
_DELIMITERS = {"spaceDelimited": "%20", "pipeDelimited": "%7C", "tabDelimited": "%09"}


class ArgumentError(ValueError):
    """An argument that no request can carry; the message says why, and what to do."""


class Style(NamedTuple):
    """How a value becomes text."""

    style: str
    explode: bool
    allows_reserved: bool = False

    def encode(self, text: str) -> str:
        """Return a text as part of a URL; with `allows_reserved` its reserved characters stay."""
        return quote(text, safe=_RESERVED if self.allows_reserved else "")


def style_of(parameter: ApiParameter) -> Style:
    """Return the style of a parameter."""
    return Style(parameter.style, parameter.explode, parameter.allows_reserved)


def text_of(value: Json) -> str:
    """Return a value as text; all but strings and null are written as JSON."""
    if isinstance(value, str):
        return value
    if isinstance(value, float) and value.is_integer() and abs(value) < 2**53:
        return str(int(value))
    return "" if value is None else write_own(value).decode()


def path_text(parameter: ApiParameter, value: Json) -> str:
    """Return the text of a path parameter.

    Raises:
        ArgumentError: the text would change the path.
    """
    style = style_of(parameter)
    name, encode = parameter.name, style.encode
    if parameter.content_type is not None:
        found = quote(_content(value, parameter.content_type), safe="")
    elif style.style == "label":
        found = "." + ("." if style.explode else ",").join(_items(value, style, encode_pairs=style.explode))
    elif style.style == "matrix":
        found = _matrix(name, value, style)
    else:
        found = ",".join(_items(value, style, encode_pairs=style.explode))
    if not found or any(map(_is_dots, _SEPARATOR.split(unquote(found)))):
        raise ArgumentError(f"{name} must not be empty, '.' or '..', got {value!r}; it is a part of the path")
    if parameter.allows_reserved and any(each in encode(text_of(value)) for each in "/?#"):
        raise ArgumentError(f"{name} must have no '/', '?' or '#', got {value!r}; it is a part of the path")
    return found


def _is_dots(step: str) -> bool:
    """Return whether a path segment is `.` or `..`; some servers decode a value before they resolve it."""
    name = step.partition(";")[0]
    return bool(name) and not name.strip(".")


def _items(value: Json, style: Style, *, encode_pairs: bool) -> list[str]:
    """Return the encoded items of a value: of a list, or names and values of an object."""
    if isinstance(value, list):
        return [style.encode(text_of(each)) for each in value]
    if isinstance(value, dict):
        pairs = [(style.encode(name), style.encode(text_of(each))) for name, each in value.items()]
        if encode_pairs:
            return [f"{name}={each}" for name, each in pairs]
        return [part for pair in pairs for part in pair]
    return [style.encode(text_of(value))]


def _matrix(name: str, value: Json, style: Style) -> str:
    items = _items(value, style, encode_pairs=style.explode)
    if isinstance(value, dict) and style.explode:
        return "".join(f";{each}" for each in items)
    if isinstance(value, list) and style.explode:
        return "".join(f";{name}={each}" for each in items)
    text = ",".join(items)
    return f";{name}={text}" if text else f";{name}"


def query_pairs(name: str, value: Json, style: Style) -> list[str]:
    """Return the `name=value` parts of a query or a form; null and empty values have none."""
    if value is None or value in ([], {}):
        return []
    label, encode = quote(name, safe=""), style.encode
    if style.style == "deepObject" and isinstance(value, dict | list):
        return list(_deep(label, value, style))
    if isinstance(value, dict):
        pairs = [(encode(key), encode(text_of(each))) for key, each in value.items() if each is not None]
        if style.explode:
            return [f"{key}={each}" for key, each in pairs]
        items = [part for pair in pairs for part in pair]
    else:
        items = [encode(text_of(each)) for each in (value if isinstance(value, list) else [value])]
        if style.explode:
            return [f"{label}={each}" for each in items]
    return [f"{label}={_DELIMITERS.get(style.style, ',').join(items)}"]


def _deep(label: str, value: Json, style: Style) -> Iterable[str]:
    """Yield the leaves of a nested value, each below the names that lead to it."""
    if isinstance(value, dict):
        for key, each in value.items():
            yield from _deep(f"{label}%5B{quote(key, safe='')}%5D", each, style)
    elif isinstance(value, list):
        for number, each in enumerate(value):
            place = f"{label}%5B{number}%5D" if isinstance(each, dict | list) else label
            yield from _deep(place, each, style)
    elif value is not None:
        yield f"{label}={style.encode(text_of(value))}"


def query_of(parameter: ApiParameter, value: Json) -> list[str]:
    """Return the parts of the query that a parameter adds."""
    if parameter.content_type is not None:
        if parameter.content_type == FORM and isinstance(value, dict):
            return [
                part for name, each in value.items() for part in query_pairs(name, each, Style("form", explode=True))
            ]
        text = quote(_content(value, parameter.content_type), safe="")
        return [text] if parameter.where == "querystring" else [f"{quote(parameter.name, safe='')}={text}"]
    return query_pairs(parameter.name, value, style_of(parameter))


def header_text(parameter: ApiParameter, value: Json) -> str:
    """Return the text of a header.

    Raises:
        ArgumentError: it has characters that a header cannot carry.
    """
    if parameter.content_type is not None:
        text = _content(value, parameter.content_type)
    elif isinstance(value, list):
        text = ",".join(map(text_of, value))
    elif isinstance(value, dict):
        joint = "=" if parameter.explode else ","
        text = ",".join(f"{name}{joint}{text_of(each)}" for name, each in value.items())
    else:
        text = text_of(value)
    if not text.isascii() or not text.isprintable():
        raise ArgumentError(f"{parameter.name} must have printable ASCII characters only, got {text!r}; encode it")
    return text


def cookie_pairs(parameter: ApiParameter, value: Json) -> list[str]:
    """Return the parts of the header `Cookie` that a parameter adds."""
    if parameter.content_type is not None:
        return [f"{parameter.name}={quote(_content(value, parameter.content_type), safe='')}"]
    return query_pairs(parameter.name, value, style_of(parameter)._replace(allows_reserved=False))


def _content(value: Json, content_type: str) -> str:
    if isinstance(value, str) and not is_json(content_type):
        return value
    return write_own(value).decode()
