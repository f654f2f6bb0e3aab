"""Definitions of tools that a review compares: what the document says about a request.

The digest depends on the document and its overlays only. Other settings, or another version of this package, do not
change it.
"""

import hashlib
import re
from collections.abc import Iterable
from typing import NamedTuple, cast

from agenttool.adapters.openapi.declare import OperationTool
from agenttool.adapters.openapi.document import DocumentError, References
from agenttool.adapters.openapi.operations import ApiOperation, ApiParameter
from agenttool.adapters.openapi.security import SecuritySchemes
from agenttool.codec import parse_value, sorted_json
from agenttool.records import Json, JsonObject

DECISIVE = ("digest",)
SHOWN = ("request", "servers", "title", "description", "tags", "inputSchema", "security", "digest")
"""The members of a definition; a review shows those that differ."""

_REFERENCE = re.compile(rb""""\$ref":("[^"\\]*(?:\\.[^"\\]*)*")""")
_NONE = frozenset[str]()


def definition_of(tool: OperationTool, digest: str, security: SecuritySchemes) -> JsonObject:
    """Return the definition of a tool."""
    operation = tool.operation
    return {
        "request": operation.key,
        "servers": [each.get("url") for each in operation.servers],
        "title": operation.summary or None,
        "description": tool.description,
        "tags": [*operation.tags],
        "inputSchema": tool.schema,
        "security": {name: security.sent_as(name, "…") for name in operation.schemes},
        "digest": digest,
    }


class _Digest(NamedTuple):
    """The digest of a part of a document, and the references in it."""

    text: str
    references: frozenset[str]


def digests_of(operations: Iterable[ApiOperation], references: References, security: SecuritySchemes) -> dict[str, str]:
    """Return a digest of each operation, by method and path."""
    found = _Digests(references, security)
    return {each.key: found.digest(each) for each in operations}


class _Digests:
    """Computes digests of operations: of all that decides about a request, with what it refers to.

    A part that several operations share, or refer to, is encoded once.
    """

    def __init__(self, references: References, security: SecuritySchemes) -> None:
        """Take the document."""
        self._references = references
        self._security = security
        self._requests: dict[tuple[int, int], str] = {}
        self._parameters: dict[int, _Digest] = {}
        self._targets: dict[str, _Digest] = {}
        self._reached: dict[frozenset[str], str] = {}

    def digest(self, operation: ApiOperation) -> str:
        """Return the digest of an operation."""
        parts = id(operation.parameters), id(operation.body)
        request = self._requests.get(parts)
        if request is None:
            request = self._requests[parts] = self._request(operation)
        own: list[Json] = [
            operation.key,
            operation.summary,
            operation.description,
            operation.is_deprecated,
            [*operation.servers],
            cast("list[Json] | None", operation.security),
            [[*self._security.carrier(name)] for name in operation.schemes],
            [*operation.tags],
            request,
        ]
        return _hash(sorted_json(own))

    def _request(self, operation: ApiOperation) -> str:
        """Return a digest of the parameters and the body of an operation, with what they refer to."""
        parameters = [self._parameter(each) for each in operation.parameters]
        own: list[Json] = [each.text for each in parameters]
        body = operation.body
        if body is not None:
            own += [body.content_type, body.schema, body.is_required, body.encoding, body.description]
        found = _digest_of(own)
        names = found.references.union(*[each.references for each in parameters])
        return found.text + self._closure(names) if names else found.text

    def _parameter(self, each: ApiParameter) -> _Digest:
        known = self._parameters.get(id(each))
        if known is None:
            styles: list[Json] = [each.name, each.where, each.style, each.explode, each.is_required]
            value: list[Json] = [*styles, each.allows_reserved, each.schema, each.description, each.content_type]
            known = self._parameters[id(each)] = _digest_of(value)
        return known

    def _closure(self, names: frozenset[str]) -> str:
        """Return the digests of all that some references lead to, and of all that is referred to from there."""
        if names not in self._reached:
            found: dict[str, str] = {}
            waiting = [*names]
            while waiting:
                name = waiting.pop()
                if name not in found:
                    found[name], following = self._target(name)
                    waiting += following
            self._reached[names] = _digest_of(dict[str, Json](found)).text
        return self._reached[names]

    def _target(self, reference: str) -> _Digest:
        known = self._targets.get(reference)
        if known is None:
            try:
                value = self._references.target(reference)
            except DocumentError:
                value = None  # it was reported where it is used
            known = self._targets[reference] = _digest_of(value)
        return known


def _digest_of(value: Json) -> _Digest:
    text = sorted_json(value)
    # Quotation marks within texts are escaped, so that only members look like this.
    names = frozenset(map(_text, _REFERENCE.findall(text))) if b'"$ref":"' in text else _NONE
    return _Digest(_hash(text), names)


def _text(data: bytes) -> str:
    return str(parse_value(data)) if b"\\" in data else data[1:-1].decode()


def _hash(text: bytes) -> str:
    return hashlib.blake2b(text, digest_size=16).hexdigest()
