"""Which arguments of a tool are paths, commands, addresses or resources, so that a rule can be about them.

The permission profile may list what rules match on (`rule_matching_fields`): `path`, `url`, `command:/script`. Then a
rule on anything else does not apply to the tool. Where it lists nothing, the schema tells: `format: uri`, `format:
path`, `x-agenttool: command`, or simply an argument that is called `path`.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field

from agenttool.policy.field_names import SYNONYMS, MatchingField, field_named
from agenttool.policy.pointers import steps_of
from agenttool.policy.schema_fields import Steps, search_schemas
from agenttool.records import JsonObject


@dataclass(frozen=True, slots=True, kw_only=True)
class Fields:
    """Where the arguments of one tool hold what rules look at.

    Attributes:
        places: for each field, the JSON pointers that lead to it, as steps.
        anywhere: fields that the tool says it has without saying where: any text may be one.
        is_open: whether there may be more in the arguments than the tool says; then their names tell, call by call.
    """

    places: dict[MatchingField, tuple[Steps, ...]] = field(default_factory=dict[MatchingField, tuple[Steps, ...]])
    anywhere: frozenset[MatchingField] = frozenset()
    is_open: bool = False

    def has(self, wanted: MatchingField) -> bool:
        """Tell whether a rule on a field can apply; a command may hold paths and addresses of its own."""
        return (
            wanted in self.places
            or wanted in self.anywhere
            or (wanted in (MatchingField.PATH, MatchingField.URL) and self.has_commands)
        )

    @property
    def has_commands(self) -> bool:
        """Tell whether the tool takes a command."""
        return MatchingField.COMMAND in self.places or MatchingField.COMMAND in self.anywhere


def fields_of(
    schemas: Iterable[JsonObject], listed: tuple[str, ...] | None, told: Iterable[tuple[MatchingField, Steps]] = ()
) -> Fields:
    """Find the fields of a tool.

    Args:
        schemas: the schemas of its input, each of which may know something.
        listed: what its permission profile says rules match on; nothing if it does not say.
        told: places that its interface names in other ways.
    """
    found: dict[MatchingField, dict[Steps, None]] = {}
    searched = search_schemas(schemas)
    for name, steps in [*told, *searched.places]:
        found.setdefault(name, {})[steps] = None
    if listed is None:
        places = {name: tuple(places) for name, places in found.items()}
        return Fields(places=places, is_open=searched.is_open)
    wanted: set[MatchingField] = set()
    for entry in listed:
        kind, steps = _entry(entry)
        if kind is not None:
            wanted.add(kind)
        if kind is not None and steps is not None:
            found.setdefault(kind, {})[steps] = None
    return Fields(
        places={name: tuple(found[name]) for name in sorted(wanted) if name in found},
        anywhere=frozenset(name for name in wanted if name not in found),
    )


def _entry(entry: str) -> tuple[MatchingField | None, Steps | None]:
    """Read `path`, `path:/target`, `/target` or the name of an argument."""
    head, _, pointer = entry.partition(":")
    word = head.strip().lower().replace(" ", "_")
    if word in SYNONYMS:
        return SYNONYMS[word], steps_of(pointer) if pointer.startswith("/") else None
    if entry.startswith("/"):
        steps = steps_of(entry)
        return field_named(steps[-1]), steps
    return field_named(entry), (entry,)
