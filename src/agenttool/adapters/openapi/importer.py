"""The import of a document: its tools, its skipped parts, and its difference from the last one.

The digest of an operation depends on the document only. Other settings, or another version of this package, do not
change it.
"""

import hashlib
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from functools import cache
from typing import cast

from agenttool.adapters.openapi import swagger2
from agenttool.adapters.openapi.declare import OperationTool, ToolMaker, facts_of, matches, tool_names
from agenttool.adapters.openapi.document import DocumentError, References, UnreadableDocument, parse
from agenttool.adapters.openapi.operations import ApiOperation, ApiParameter, OperationReader, RequestBody, media_type
from agenttool.adapters.openapi.schemas import SchemaConverter
from agenttool.adapters.openapi.security import SecuritySchemes
from agenttool.adapters.openapi.settings import OpenApiService
from agenttool.adapters.openapi.shapes import PART_IGNORED, SkippedPart
from agenttool.codec import object_of, parse_value, sorted_json
from agenttool.errors import RecordError
from agenttool.ports.tool import without_garbage_collection
from agenttool.records import Json, JsonObject
from agenttool.schema.compile import Checker

DECISIVE = ("digest",)
SHOWN = ("request", "servers", "title", "description", "tags", "inputSchema", "security", "digest")
"""The members of a definition; a review shows those that differ."""

_REFERENCE = re.compile(rb""""\$ref":("[^"\\]*(?:\\.[^"\\]*)*")""")
_MAX_RESPONSE_SCHEMA = 200_000
_SHOWN = 3
_VERSIONS = ("3.0", "3.1", "3.2")


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
        found = next((responses[each] for each in names if each in responses), dict[str, Json]())
        content = object_of(self._references.resolve(found, tool.operation.pointer).get("content"))
        return {media_type(each): object_of(media) for each, media in content.items()}

    def _compile(self, tool: OperationTool, status: int, content_type: str) -> Checker | None:
        kinds = self.content_of(tool, status)
        patterns = (content_type, f"{content_type.partition('/')[0]}/*", "*/*")
        media = next((kinds[each] for each in patterns if each in kinds), None)
        if media is None or "schema" not in media:
            return None
        schema, _, names = self._schemas.convert(media["schema"], tool.operation.pointer)
        return Checker({**schema, "$defs": self._schemas.definitions(names, limit=_MAX_RESPONSE_SCHEMA)})


def import_document(
    service: OpenApiService,
    data: bytes,
    place: str,
    *,
    external: Mapping[str, JsonObject | UnreadableDocument] | None = None,
) -> ImportedDocument:
    """Return the tools of a document; an invalid operation is skipped and reported.

    Raises:
        DocumentError: the document itself cannot be read.
    """
    skipped: list[SkippedPart] = []
    with without_garbage_collection():
        root = parse(data)
        version = str(root.get("openapi") or root.get("swagger") or "")
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
        maker = ToolMaker(service, place, schemas, security, reader.servers)
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
            advice=tuple(_unused(service, named, security)),
            security=security,
            responses=ResponseCheckers(references),
            operations=operations,
            digests=digests_of(operations, references, security),
        )


def _undescribed(operations: Sequence[ApiOperation], security: SecuritySchemes) -> Iterator[SkippedPart]:
    """Yield each security scheme that operations name and the document lacks, at the first such operation."""
    known = {*security.schemes, *(each.pointer.rpartition("/")[2] for each in security.skipped)}
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
            count = sum(matches(pattern, each, name) for each, name in named)
            if not count and not any(each.name and fnmatchcase(each.name, pattern) for each in service.tools.values()):
                yield f"the pattern {pattern!r} of {member} matches no operation; correct it"
            elif new_name is not None and count > 1:
                yield f"the pattern {pattern!r} gives several operations the name {new_name!r}; write one for each"
    for name in service.security:
        if name not in security.schemes:
            known = f"the document has {', '.join(security.schemes)}" if security.schemes else "it has none"
            yield f"the security scheme {name!r} is not described in the document; {known}"


def describe_changes(before: Mapping[str, str], after: Mapping[str, str]) -> str:
    """Return how many operations were added, removed or changed, with the first names; compares their digests."""
    found = {
        "added": [each for each in after if each not in before],
        "removed": [each for each in before if each not in after],
        "changed": [each for each, digest in after.items() if before.get(each, digest) != digest],
    }
    return "; ".join(
        f"{len(names)} {word} ({', '.join(names[:_SHOWN])}{', …' if len(names) > _SHOWN else ''})"
        for word, names in found.items()
        if names
    )


def definition_of(tool: OperationTool, digest: str, security: SecuritySchemes) -> JsonObject:
    """Return the definition of a tool."""
    operation = tool.operation
    return {
        "request": operation.key,
        "servers": [each.get("url") for each in operation.servers],
        "title": operation.summary or None,
        "description": tool.description,
        "tags": [*operation.tags],
        "inputSchema": tool.input.schema,
        "security": {name: security.scheme(name).sent_as("…") for name in operation.schemes},
        "digest": digest,
    }


def digests_of(operations: Iterable[ApiOperation], references: References, security: SecuritySchemes) -> dict[str, str]:
    """Return a digest of each operation, by method and path: of all that decides about a request."""

    @cache
    def target(reference: str) -> tuple[str, set[str]]:
        try:
            return _digest_of(references.target(reference))
        except DocumentError:
            return _digest_of(None)  # it was reported where it is used

    def closure(names: Iterable[str]) -> str:
        """Return the digests of all that some references lead to, and of all that is referred to from there."""
        found: dict[str, Json] = {}
        waiting = [*names]
        while waiting:
            name = waiting.pop()
            if name not in found:
                found[name], following = target(name)
                waiting += following
        return _digest_of(found)[0]

    @cache
    def request(parameters: tuple[ApiParameter, ...], body: RequestBody | None) -> str:
        """Return a digest of parameters and a body, with what they refer to."""
        parts = [_digest_of(_decisive(each)) for each in parameters]
        own: list[Json] = [text for text, _ in parts]
        if body is not None:
            own += [body.content_type, body.schema, body.is_required, body.encoding, body.description]
        text, names = _digest_of(own)
        names = names.union(*[each for _, each in parts])
        return text + closure(names) if names else text

    def digest(operation: ApiOperation) -> str:
        carriers = (security.scheme(name) for name in operation.schemes)
        own: list[Json] = [
            operation.key,
            operation.summary,
            operation.description,
            operation.is_deprecated,
            [*operation.servers],
            cast("list[Json] | None", operation.security),
            [[each.kind, each.where, each.member] for each in carriers],
            [*operation.tags],
            request(operation.parameters, operation.body),
        ]
        return _digest_of(own)[0]

    return {each.key: digest(each) for each in operations}


def _decisive(each: ApiParameter) -> list[Json]:
    styles: list[Json] = [each.name, each.where, each.style, each.explode, each.is_required]
    return [*styles, each.allows_reserved, each.schema, each.description, each.content_type]


def _digest_of(value: Json) -> tuple[str, set[str]]:
    """Return the digest of a part of a document, and the references in it."""
    text = sorted_json(value)
    # Quotation marks within texts are escaped, so that only members look like this.
    names = {str(parse_value(each)) for each in _REFERENCE.findall(text)}
    return hashlib.blake2b(text, digest_size=16).hexdigest(), names
