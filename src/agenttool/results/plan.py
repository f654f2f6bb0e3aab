"""How the outputs of one tool are mapped: read from its records once, when it is declared."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from agenttool.errors import ConfigError, RecordError
from agenttool.records import ClosedEnum, ContentClass, Json, OutputContract, ToolInterface
from agenttool.results.redaction import Redactor, compile_redactor
from agenttool.schema.compile import Checker, compile_schema


class EmptyResultPolicy(ClosedEnum):
    """What a success without output becomes (G-56)."""

    MARKER = "marker"
    FAIL = "fail"


@dataclass(frozen=True, slots=True, kw_only=True)
class MappingPlan:
    """How the outputs of one tool are mapped.

    `has_artifacts` says that it declares artifacts, and `effects` is false if it only reads, so that errors can say so.
    """

    check: Checker | None = None
    content_types: frozenset[ContentClass] | None = None
    mapper: Callable[[object], object] | None = None
    redactor: Redactor | None = None
    empty_result_policy: EmptyResultPolicy = EmptyResultPolicy.MARKER
    fallback_summary: str | None = None
    ui_facing_summary: str | None = None
    transcript_search_text: str | None = None
    has_artifacts: bool = False
    effects: bool | None = None
    is_plain: bool = field(init=False, default=False)
    is_bare: bool = field(init=False, default=False)
    may_be_empty: bool = field(init=False, default=False)

    def __post_init__(self) -> None:
        """Tell once whether the short way is open, on which only a schema may stand, and whether nothing does."""
        special = (
            self.content_types,
            self.mapper,
            self.redactor,
            self.ui_facing_summary,
            self.transcript_search_text,
        )
        object.__setattr__(self, "is_plain", all(each is None for each in special))
        object.__setattr__(self, "is_bare", self.is_plain and self.check is None)
        has_marker = self.empty_result_policy is EmptyResultPolicy.MARKER
        object.__setattr__(self, "may_be_empty", has_marker and self.check is None)


PLAIN = MappingPlan()
"""The plan of a tool that declares nothing about its output."""


def plan_mapping(
    interface: ToolInterface,
    contract: OutputContract | None = None,
    *,
    mapper: Callable[[object], object] | None = None,
    supports_artifacts: bool = False,
) -> MappingPlan:
    """Read the plan of a tool from its records; `mapper` is the code behind `result_mapper`, if it has one.

    A contract that expects artifacts declares them, too.

    Raises:
        ConfigError: the records contradict each other, or a schema cannot be used.
    """
    contract = contract or OutputContract()
    rendering = interface.rendering
    return MappingPlan(
        check=check_of(interface, contract),
        content_types=None if contract.content_types is None else frozenset(contract.content_types),
        mapper=mapper,
        redactor=compile_redactor(_paths_of(contract.redaction_rules or ())),
        empty_result_policy=_empty_policy_of(interface.empty_result_policy),
        fallback_summary=contract.fallback_summary,
        ui_facing_summary=rendering and rendering.ui_summary,
        transcript_search_text=rendering and rendering.transcript_search_text,
        has_artifacts=supports_artifacts or bool(contract.artifact_expectations),
        effects=False if interface.is_read_only is True else None,
    )


def check_of(interface: ToolInterface, contract: OutputContract | None) -> Checker | None:
    """Compile the schema of a tool's output; two schemas for one thing must be equal (G-19).

    Raises:
        ConfigError: they are not, or the schema cannot be used.
    """
    first, second = interface.output_schema, None if contract is None else contract.structured_schema
    if first is not None and second is not None and first != second:
        raise ConfigError("output_schema and structured_schema must be equal; keep one of them")
    schema = first if first is not None else second
    try:
        return None if schema is None else compile_schema(schema)
    except RecordError as error:
        raise ConfigError(f"output_schema cannot be used: {error}") from error


def _paths_of(rules: Iterable[Json]) -> list[str]:
    """Take the place out of each redaction rule: a text is one, an object names it as `path`, `pointer` or `field`.

    A rule that names no place is read at its strictest: everything is sensitive.
    """
    paths: list[str] = []
    for rule in rules:
        said = [rule.get(name) for name in _PLACE_NAMES] if isinstance(rule, dict) else [rule]
        paths += [each for each in said if isinstance(each, str)] or [""]
    return paths


_PLACE_NAMES = ("path", "pointer", "field")


def _empty_policy_of(name: str | None) -> EmptyResultPolicy:
    return EmptyResultPolicy.FAIL if name == EmptyResultPolicy.FAIL else EmptyResultPolicy.MARKER
