"""All declared tools, by id and by name, and the snapshots that surfaces share."""

from collections.abc import Iterator
from typing import TypeVar

from agenttool.catalog.entry import Entry, traits_of
from agenttool.catalog.filters import Absence, withdrawal
from agenttool.catalog.names import NameTable
from agenttool.catalog.snapshot import CatalogSnapshot, ListedTools, ToolColumns
from agenttool.codec import json_bytes, parse_value, read, retyped, write
from agenttool.codec.visible_text import visible_text
from agenttool.errors import ConfigError, RecordError
from agenttool.ports.tool import DeclaredTool
from agenttool.records import (
    UNSET,
    AccessKind,
    InputContract,
    Json,
    JsonObject,
    PermissionProfile,
    Record,
    ToolDeclaration,
    ToolId,
    ToolInterface,
    ToolKind,
    replace,
)
from agenttool.schema.explain import pointer_of
from agenttool.schema.traverse import DATA_KEYWORDS

_R = TypeVar("_R", bound=Record)

_ALWAYS_CLASSIFIED = (ToolKind.SHELL_COMMAND, ToolKind.CODE_EXECUTION)
_CLASSIFIED_IF_WRITING = (ToolKind.FILE_OPERATION,)


class Catalog:
    """The tools of a runtime. Namespaces may share a bare name; a qualified name has one owner.

    A tool that is replaced keeps its number, and snapshots taken before do not change.
    """

    def __init__(self) -> None:
        self._names = NameTable()
        self._columns = ToolColumns()
        self._withdrawals: list[Absence | None] = []  # by traits group
        self._withdrawn: dict[int, Absence] = {}
        self._last_listed: list[ListedTools] = []
        self._last: CatalogSnapshot | None = None
        self._is_current = False

    def __iter__(self) -> Iterator[Entry]:
        """Iterate over the tools in the order of their declaration."""
        return iter(self._columns.entries)

    def find(self, tool_id: ToolId) -> Entry | None:
        """Return the tool with an id, also if it is retired."""
        return self._numbered(self._names.numbers.get(tool_id))

    def owner(self, qualified_name: str) -> Entry | None:
        """Return the tool with a qualified name."""
        return self._numbered(self._names.owners.get(qualified_name))

    def _numbered(self, number: int | None) -> Entry | None:
        return None if number is None else self._columns.entries[number]

    def is_withdrawn(self, tool_id: ToolId) -> bool:
        """Return whether a declared tool is retired, disabled or a draft, so that no surface offers it."""
        return self._names.numbers[tool_id] in self._withdrawn

    def prepare(self, *tools: DeclaredTool) -> list[Entry]:
        """Validate tools and return their entries, without adding them.

        Raises:
            ConfigError: a record is invalid, records contradict each other, or two tools have one qualified name.
        """
        entries = [Entry(tool=each) for each in map(_completed, tools)]
        new: dict[str, Entry] = {}
        for entry in entries:
            owner = self.owner(entry.qualified_name) or new.setdefault(entry.qualified_name, entry)
            if owner.tool_id != entry.tool_id:
                raise ConfigError(
                    f"two tools are named {entry.qualified_name!r}: {owner.tool_id!r} and {entry.tool_id!r}; "
                    "give one of them another namespace or name"
                )
        return entries

    def add(self, entry: Entry) -> Entry | None:
        """Add a prepared entry, and return the one with the same id that it replaces."""
        traits = traits_of(entry.tool)
        group, number = self._columns.group(traits), self._names.numbers.get(entry.tool_id)
        before = self._numbered(number)
        if number is None or before is None:
            number = self._names.add(entry)
            self._columns.append(entry, group)
        else:
            self._copy_shared(before, entry)
            self._columns.put(number, entry, group)
        if group == len(self._withdrawals):
            self._withdrawals.append(withdrawal(traits))
        absence = self._withdrawals[group]
        if absence is not None:
            self._withdrawn[number] = absence
        else:
            self._withdrawn.pop(number, None)
        self._is_current = False
        return before

    def _copy_shared(self, before: Entry, after: Entry) -> None:
        """Copy the tables that the last snapshot uses, before a tool is replaced in them."""
        last = self._last
        if _names_of(before) != _names_of(after):
            if last is not None and last.names is self._names:
                self._names = self._names.copy()
            self._names.rename(before, after)
        if last is not None and last.columns is self._columns:
            self._columns = self._columns.copy()

    def snapshot(self) -> CatalogSnapshot:
        """Return an immutable view of all tools; the same one until a tool is added."""
        if self._last is None or not self._is_current:
            self._last = CatalogSnapshot(
                size=len(self._columns.entries),
                names=self._names,
                columns=self._columns,
                traits=tuple(self._columns.traits),
                withdrawn=self._withdrawn,
                last_listed=self._last_listed,
            )
            self._is_current = True
        return self._last


def _names_of(entry: Entry) -> tuple[str, frozenset[str]]:
    return entry.qualified_name, frozenset(entry.tool.declaration.aliases or ())


def _completed(tool: DeclaredTool) -> DeclaredTool:
    """Return a tool with validated records, each of which repeats what follows from the others.

    Raises:
        ConfigError: a value has the wrong type, the records contradict each other, or `classifier_input` is missing
            where it is required.
    """
    name = tool.declaration.name
    declaration, contract = tool.declaration, tool.declaration.input_contract
    has_one_schema = (
        isinstance(contract, InputContract) and contract.runtime_input_schema is contract.model_input_schema
    )
    if isinstance(contract, InputContract) and has_one_schema:  # it is copied once
        declaration = replace(declaration, input_contract=replace(contract, runtime_input_schema=None))
    declaration = _validated(declaration, name)
    if not declaration.tool_id or not name:
        raise ConfigError(f"a tool needs an id and a name, got {declaration.tool_id!r} and {name!r}; add it")
    _require_same_identity(declaration, tool.interface)
    shown = {} if tool.interface.user_facing_name else {"user_facing_name": declaration.title}
    interface = _validated(
        tool.interface,
        name,
        name=declaration.name,
        aliases=declaration.aliases,
        namespace=declaration.namespace,
        **shown,
    )
    execution_profile = _validated(tool.execution_profile, name)
    permission_profile = _validated(tool.permission_profile, name)
    _require_classifier_input(declaration, interface, permission_profile)
    return tool.with_records(
        declaration=replace(
            declaration,
            input_contract=_contract(declaration, interface, has_one_schema=has_one_schema),
            interface_ref=declaration.interface_ref or interface.interface_id,
            execution_profile_ref=declaration.execution_profile_ref or execution_profile.execution_profile_id,
            permission_profile_ref=declaration.permission_profile_ref or permission_profile.permission_profile_id,
        ),
        interface=interface,
        execution_profile=execution_profile,
        permission_profile=permission_profile,
    )


def _validated(record: _R, tool: str, /, **derived: object) -> _R:
    """Return a copy of a record in which every value has the type of its field; `derived` are further changes.

    The copy protects schemas and lists from later changes by the caller.

    Raises:
        ConfigError: a value has the wrong type.
    """
    try:
        written = write(record)
        copy = retyped(record) if written.isascii() else None  # it shares the texts
        if copy is None:
            copy = read(json_bytes(_visible(parse_value(written))), type(record))
    except (RecordError, TypeError, ValueError, RecursionError) as error:
        raise ConfigError(f"the {type(record).__name__} of {tool!r} is invalid: {error}") from error
    return replace(copy, **derived) if derived else copy


def _visible(value: Json, steps: tuple[str, ...] = (), *, in_schema: bool = False, is_data: bool = False) -> Json:
    """Return a record with visible descriptions and titles, also inside schemas: models and terminals show them.

    Raises:
        RecordError: a name or a value of a schema has invisible characters; marks would change its meaning.
    """
    if isinstance(value, list):
        return [_visible(each, steps, in_schema=in_schema, is_data=is_data) for each in value]
    if isinstance(value, str):
        if steps[-1] in _SHOWN and not is_data:
            return visible_text(value)
        if in_schema:
            _require_visible(value, steps)
    if not isinstance(value, dict):
        return value
    shown: JsonObject = {}
    for name, each in value.items():
        if in_schema:
            _require_visible(name, steps)
        shown[name] = _visible(
            each,
            (*steps, name),
            in_schema=in_schema or name.endswith("_schema"),
            is_data=is_data or (name in DATA_KEYWORDS and steps[-1:] != ("properties",)),
        )
    return shown


def _require_visible(text: str, steps: tuple[str, ...]) -> None:
    marked = visible_text(text)
    if marked is not text:
        message = f"the name or value {marked[:200]} has invisible characters; remove them"
        raise RecordError(message, pointer=pointer_of(steps))


_SHOWN = frozenset({"description", "title", "search_hint", "user_facing_name", "$comment"})


def _contract(declaration: ToolDeclaration, interface: ToolInterface, *, has_one_schema: bool) -> InputContract | None:
    """Return the input contract, with the schema of the interface if it has none (AT-DECL-21)."""
    contract = declaration.input_contract or InputContract()
    model, runtime = contract.model_input_schema, contract.runtime_input_schema
    if model is not None:
        return replace(contract, runtime_input_schema=model) if has_one_schema else contract
    if interface.model_input_schema is None:
        return declaration.input_contract
    return replace(
        contract,
        model_input_schema=interface.model_input_schema,
        runtime_input_schema=interface.runtime_input_schema if runtime is None else runtime,
    )


def _require_same_identity(declaration: ToolDeclaration, interface: ToolInterface) -> None:
    if interface.tool_id == declaration.tool_id and interface.name is interface.namespace is None:
        return
    for member in ("tool_id", "name", "namespace"):
        declared, other = getattr(declaration, member), getattr(interface, member)
        if other is not None and other != declared:
            raise ConfigError(
                f"the interface of {declaration.name!r} has the {member} {other!r}, and its declaration "
                f"{declared!r}; correct one of them"
            )


def _require_classifier_input(
    declaration: ToolDeclaration, interface: ToolInterface, profile: PermissionProfile
) -> None:
    """Require tools that run commands or code, or write files, to name the input to classify (AT-IFACE-25)."""
    kind = declaration.tool_kind
    writes = AccessKind.FILE_WRITE in (profile.access_kinds or ())
    is_classified = kind in _ALWAYS_CLASSIFIED or (writes and kind in _CLASSIFIED_IF_WRITING)
    if is_classified and interface.classifier_input in (UNSET, None, ""):
        raise ConfigError(
            f"{declaration.name!r} is a {kind} and does not name the input that policies classify; "
            "give its interface a classifier_input, such as 'input.command', or 'input' for all of it"
        )
