"""Docstrings in Google, NumPy or Sphinx style: what a function does, and what each parameter means."""

from collections.abc import Collection, Iterable
from dataclasses import dataclass, field
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
"""What a parser may trip over in a text that nobody ever checked."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Docs:
    """A docstring taken apart: the text without its parameter sections, and those by parameter."""

    description: str
    parameters: dict[str, str] = field(default_factory=dict[str, str])


def read_docs(text: str, names: Collection[str]) -> Docs:
    """Take a docstring apart in the style that explains most of these parameters.

    A text that explains none of them, or that no parser can read, is the description, word for word. It comes without
    the indentation of its source, which a line break before it keeps the parser from taking away once more.
    """
    best = Docs(description=text.strip())
    for style, options in _STYLES if text and names else ():
        try:
            docs = _docs(griffe.Docstring("\n" + text).parse(style, warnings=False, **options), names)
        except _UNREADABLE:
            continue
        if len(docs.parameters) > len(best.parameters):
            best = docs
    return best


def _docs(sections: Iterable[griffe.DocstringSection], names: Collection[str]) -> Docs:
    kept: list[str] = []
    parameters: dict[str, str] = {}
    for section in sections:
        if isinstance(section, griffe.DocstringSectionParameters):
            found = {each.name.lstrip("*"): each.description.strip() for each in section.value}
            parameters |= {name: description for name, description in found.items() if name in names and description}
        else:
            kept.append(_told(section).strip())
    return Docs(description="\n\n".join(filter(None, kept)), parameters=parameters)


def _told(section: griffe.DocstringSection) -> str:
    """Write a section the way its author may have written it."""
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
