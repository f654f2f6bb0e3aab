"""What the strict modes of providers understand of JSON Schema, as they document it."""

from dataclasses import dataclass

_FORMATS = frozenset({"date-time", "time", "date", "duration", "email", "hostname", "ipv4", "ipv6", "uuid"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Dialect:
    """The strict mode of one provider.

    Attributes:
        asserted: keywords, beside those of the shape itself, that it enforces.
        formats: the words after `format` that it knows.
        all_required: every property must be required, so that what may be left out is sent as null.
        is_recursive: a schema may refer to itself.
        most_min_items: the highest `minItems` it enforces; none if any.
        max_text: how many characters the names and choices of a schema may have together.
        max_choices_text: how many those of one list may have that holds more than `many_choices`.
    """

    asserted: frozenset[str]
    formats: frozenset[str]
    all_required: bool
    is_recursive: bool
    most_min_items: int | None = None
    max_depth: int = 10
    max_properties: int = 5000
    max_choices: int = 1000
    max_text: int = 120_000
    many_choices: int = 250
    max_choices_text: int = 15_000


OPENAI = Dialect(
    asserted=frozenset(
        {
            "pattern",
            "multipleOf",
            "minimum",
            "maximum",
            "exclusiveMinimum",
            "exclusiveMaximum",
            "minItems",
            "maxItems",
        }
    ),
    formats=_FORMATS,
    all_required=True,
    is_recursive=True,
)

ANTHROPIC = Dialect(
    asserted=frozenset({"minItems"}),
    formats=_FORMATS | {"uri"},
    all_required=False,
    is_recursive=False,
    most_min_items=1,
)
