"""The import of a document: its tools, its skipped parts, and its difference from the last one."""

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatchcase

from agenttool.adapters.openapi import swagger2
from agenttool.adapters.openapi.declare import OperationTool, ToolMaker, facts_of, matches, tool_names
from agenttool.adapters.openapi.definition import definition_of, digests_of
from agenttool.adapters.openapi.document import DocumentError, References, UnreadableDocument, object_of, parse
from agenttool.adapters.openapi.operations import ApiOperation, OperationReader, media_type
from agenttool.adapters.openapi.overlay import apply_overlay
from agenttool.adapters.openapi.schemas import SchemaConverter
from agenttool.adapters.openapi.security import SecuritySchemes
from agenttool.adapters.openapi.settings import OpenApiService
from agenttool.adapters.openapi.shapes import PART_IGNORED, SkippedPart, escape
from agenttool.errors import RecordError
from agenttool.ports.tool import without_garbage_collection
from agenttool.records import JsonObject
from agenttool.schema.compile import Checker

_MAX_RESPONSE_SCHEMA = 200_000
_TWICE = "it is written twice, and the last one is used; rename or remove one"
_VERSIONS = ("3.0", "3.1", "3.2")


@dataclass(frozen=True, slots=True, kw_only=True)
class Difference:
    """The operations, as `METHOD /path`, that were added, removed or changed since the last import."""

    added: tuple[str, ...] = ()
    removed: tuple[str, ...] = ()
    changed: tuple[str, ...] = ()

    def __bool__(self) -> bool:
        """Whether there is a difference."""
        return bool(self.added or self.removed or self.changed)

    def __str__(self) -> str:
        """Return the counts and the first names."""
        groups = (("added", self.added), ("removed", self.removed), ("changed", self.changed))
        return "; ".join(f"{len(found)} {word} ({_first_names(found)})" for word, found in groups if found)


def _first_names(names: Collection[str]) -> str:
    shown = list(names)[:3]
    return ", ".join(shown) + (", …" if len(names) > len(shown) else "")


@dataclass(slots=True, kw_only=True)
class ImportedDocument:
    """The tools of a document.

    Attributes:
        excluded: how many operations the settings leave out.
        skipped: parts that cannot be used.
        findings: schemas that are read more loosely than they are written.
        advice: what to correct in the settings, such as a pattern that matches no operation.
        digests: of each operation, by method and path.
    """

    title: str
    version: str
    place: str
    tools: list[OperationTool]
    excluded: int
    skipped: list[SkippedPart]
    findings: list[SkippedPart]
    advice: tuple[str, ...]
    security: SecuritySchemes
    responses: "ResponseCheckers" = field(repr=False)
    operations: list[ApiOperation] = field(repr=False)
    digests: dict[str, str] = field(repr=False)

    def definitions(self) -> dict[str, JsonObject]:
        """Return the definitions of the tools by their names, as a review compares them."""
        return {each.name: definition_of(each, self.digests[each.operation.key], self.security) for each in self.tools}


class ResponseCheckers:
    """Compiles the schemas of responses, each when the first such response arrives."""

    def __init__(self, references: References) -> None:
        """Take the document."""
        self._references = references
        self._schemas = SchemaConverter(references, is_response=True)
        self._checkers: dict[tuple[str, int, str], Checker | None] = {}

    def checker_of(self, tool: OperationTool, status: int, content_type: str) -> Checker | None:
        """Return the compiled schema of a response; None if the document has none that can be used."""
        key = tool.operation.key, status, content_type
        if key not in self._checkers:
            try:
                self._checkers[key] = self._compile(tool, status, content_type)
            except (DocumentError, RecordError, RecursionError):
                self._checkers[key] = None
        return self._checkers[key]

    def content_of(self, tool: OperationTool, status: int) -> dict[str, JsonObject]:
        """Return the media type objects that the document lists for a response, by media type.

        Raises:
            DocumentError: a reference leads nowhere.
        """
        responses = tool.operation.responses
        names = (str(status), f"{status // 100}XX", "default")
        found = next((responses[each] for each in names if each in responses), None)
        content = object_of(self._references.resolve(found or {}, tool.operation.pointer).get("content"))
        return {media_type(each): object_of(media) for each, media in content.items()}

    def _compile(self, tool: OperationTool, status: int, content_type: str) -> Checker | None:
        kinds = self.content_of(tool, status)
        patterns = (content_type, f"{content_type.partition('/')[0]}/*", "*/*")
        media = next((kinds[each] for each in patterns if each in kinds), None)
        if media is None or "schema" not in media:
            return None
        schema, names = self._schemas.convert(media["schema"], tool.operation.pointer)
        if not isinstance(schema, dict):
            return None
        return Checker({**schema, "$defs": self._schemas.definitions(names, limit=_MAX_RESPONSE_SCHEMA)})


def import_document(
    service: OpenApiService,
    data: bytes,
    place: str,
    *,
    external: Mapping[str, JsonObject | UnreadableDocument] | None = None,
    overlays: Sequence[bytes] = (),
) -> ImportedDocument:
    """Return the tools of a document; an invalid operation is skipped and reported.

    Raises:
        DocumentError: the document itself cannot be read.
    """
    repeated, unused = list[tuple[str, ...]](), list[str]()
    with without_garbage_collection():
        root = parse(data, is_lazy=not overlays, repeated=repeated)
        for each in overlays:
            root = apply_overlay(root, parse(each), unused)
        version = str(root.get("openapi") or root.get("swagger") or "")
        skipped = [SkippedPart("".join(f"/{escape(step)}" for step in each), _TWICE, PART_IGNORED) for each in repeated]
        if root.get("swagger") is not None:
            root = swagger2.convert(root, place, external or {}, skipped.append)
        elif not version.startswith(_VERSIONS):
            raise DocumentError(
                (f"its version is {version!r}" if version else "it has neither the member openapi nor swagger")
                + "; name a document of OpenAPI 3.0 to 3.2 or Swagger 2.0"
            )
        references = References(root, place, external or {})
        reader = OperationReader(references)
        operations = reader.read()
        schemas, security = SchemaConverter(references), SecuritySchemes(service, references)
        maker = ToolMaker(service, place, schemas, security)
        found: dict[str, OperationTool] = {}
        excluded = 0
        named = list(zip(operations, tool_names(operations), strict=True))
        for operation, name in named:
            if not _is_included(service, operation, name):
                excluded += 1
                continue
            try:
                tool = maker.make(operation, name)
            except DocumentError as error:
                reader.skipped.append(SkippedPart(error.pointer or operation.pointer, str(error)))
                continue
            if (other := found.setdefault(tool.name.lower(), tool)) is not tool:
                reason = f"{other.operation.key} has the name {tool.name!r}, too; rename one in tools of the settings"
                reader.skipped.append(SkippedPart(operation.pointer, reason))
        return ImportedDocument(
            title=str(object_of(root.get("info")).get("title") or ""),
            version=version,
            place=place,
            tools=[*found.values()],
            excluded=excluded,
            skipped=[
                *dict.fromkeys((*skipped, *reader.skipped, *security.skipped, *_undescribed(operations, security)))
            ],
            findings=[*dict.fromkeys(schemas.findings)],
            advice=(*unused, *_unused(service, named, security)),
            security=security,
            responses=ResponseCheckers(references),
            operations=operations,
            digests=digests_of(operations, references, security),
        )


def _undescribed(operations: Sequence[ApiOperation], security: SecuritySchemes) -> Iterator[SkippedPart]:
    """Yield each security scheme that operations name and the document lacks, at the first such operation."""
    known = {*security.names, *(each.pointer.rpartition("/")[2] for each in security.skipped)}
    for operation in operations:
        for name in operation.schemes:
            if name not in known:
                known.add(name)
                reason = f"the security scheme {name!r} is not described; add it to components/securitySchemes"
                yield SkippedPart(f"{operation.pointer}/security", reason, PART_IGNORED)


def _is_included(service: OpenApiService, operation: ApiOperation, name: str) -> bool:
    if not service.include and not service.exclude:
        return True
    names = {name, facts_of(service, operation, name).name or name}
    is_included = not service.include or any(matches(each, operation, n) for each in service.include for n in names)
    return is_included and not any(matches(each, operation, n) for each in service.exclude for n in names)


def _unused(
    service: OpenApiService, named: Sequence[tuple[ApiOperation, str]], security: SecuritySchemes
) -> Iterator[str]:
    """Yield the settings that concern nothing in the document, which are often misspelled."""
    if not named:
        yield "the document describes no operation that can be called; name another one"
    groups = (("include", service.include), ("exclude", service.exclude), ("tools", service.tools))
    for member, patterns in groups:
        for pattern in patterns:
            new_name = service.tools[pattern].name if member == "tools" else None
            if not any(matches(pattern, each, name) for each, name in named) and not _is_new_name(service, pattern):
                yield f"the pattern {pattern!r} of {member} matches no operation; correct it"
            elif new_name is not None and sum(matches(pattern, each, name) for each, name in named) > 1:
                yield f"the pattern {pattern!r} gives several operations the name {new_name!r}; write one for each"
    for name in service.security:
        if name not in security.names:
            known = f"the document has {', '.join(security.names)}" if security.names else "it has none"
            yield f"the security scheme {name!r} is not described in the document; {known}"


def _is_new_name(service: OpenApiService, pattern: str) -> bool:
    return any(each.name is not None and fnmatchcase(each.name, pattern) for each in service.tools.values())


def difference(before: Mapping[str, str], after: Mapping[str, str]) -> Difference:
    """Return how two sets of operations differ, by their digests."""
    return Difference(
        added=tuple(each for each in after if each not in before),
        removed=tuple(each for each in before if each not in after),
        changed=tuple(each for each, digest in after.items() if before.get(each, digest) != digest),
    )
