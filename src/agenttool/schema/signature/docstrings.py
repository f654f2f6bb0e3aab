"""Parse the sections of docstrings with griffe. Importing it takes longer than declaring a hundred tools."""

from collections.abc import Collection, Iterable
from textwrap import indent
from typing import cast

import griffe

_WHOLE_RETURNS = {"returns_multiple_items": False, "returns_named_value": False}
_STYLES: tuple[tuple[griffe.Parser, dict[str, bool]], ...] = (
    (griffe.Parser.google, _WHOLE_RETURNS),
    (griffe.Parser.numpy, {}),
    (griffe.Parser.sphinx, {}),
)

_UNREADABLE = (ValueError, TypeError, AttributeError, LookupError, RuntimeError, AssertionError, SyntaxError)
"""What a docstring parser can raise on malformed text."""


Parsed = tuple[str, dict[str, str]]
"""The text without its parameter sections, and the text of each parameter."""


def parse_styles(text: str, names: Collection[str]) -> Parsed | None:
    """Return a docstring in the style that describes most of these parameters; none if no style describes any.

    The text has no indentation left; the line break before it stops griffe from removing more.
    """
    best: Parsed | None = None
    for style, options in _STYLES:
        try:
            found = _parsed(griffe.Docstring("\n" + text).parse(style, warnings=False, **options), names)
        except _UNREADABLE:
            continue
        if len(found[1]) > (0 if best is None else len(best[1])):
            best = found
    return best


def _parsed(sections: Iterable[griffe.DocstringSection], names: Collection[str]) -> Parsed:
    texts: list[str] = []
    parameters: dict[str, str] = {}
    for section in sections:
        if isinstance(section, griffe.DocstringSectionParameters):
            found = {each.name.lstrip("*"): each.description.strip() for each in section.value}
            parameters |= {name: description for name, description in found.items() if name in names and description}
        else:
            texts.append(_section_text(section).strip())
    return "\n\n".join(filter(None, texts)), parameters


def _section_text(section: griffe.DocstringSection) -> str:
    """Return a section as text in Google style."""
    if isinstance(section, griffe.DocstringSectionText):
        return section.value
    if isinstance(section, griffe.DocstringSectionExamples):
        body = "\n\n".join(part for _, part in section.value)
    else:
        items = cast("list[object]", section.value if isinstance(section.value, list) else [section.value])
        body = "\n".join(map(_item, items))
    title = section.title or section.kind.value.capitalize()
    return f"{title}:\n{indent(body.strip(), '    ')}"


def _item(item: object) -> str:
    description: str = getattr(item, "description", "")
    is_note = isinstance(item, griffe.DocstringAdmonition)
    label = "" if is_note else getattr(item, "name", None) or getattr(item, "annotation", None)
    return f"{label}: {description.strip()}" if label else description
