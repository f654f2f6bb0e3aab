"""Definitions of tools that a review compares: what the document says about a request.

The digest depends on the document only. Other settings, or another version of this package, do not change it.
"""

import hashlib
from collections.abc import Iterator
from typing import cast

from agenttool.adapters.openapi.declare import OperationTool
from agenttool.adapters.openapi.document import DocumentError, References
from agenttool.adapters.openapi.operations import ApiOperation, ApiParameter
from agenttool.codec import sorted_json
from agenttool.records import Json, JsonObject

DECISIVE = ("digest",)
SHOWN = ("request", "servers", "title", "description", "inputSchema", "security", "digest")
"""The members of a definition; a review shows those that differ."""


def definition_of(tool: OperationTool, digest: str) -> JsonObject:
    """Return the definition of a tool."""
    operation = tool.operation
    return {
        "request": operation.key,
        "servers": [each.get("url") for each in operation.servers],
        "title": operation.summary or None,
        "description": tool.description,
        "inputSchema": tool.schema,
        "security": [*operation.schemes],
        "digest": digest,
    }


class OperationDigests:
    """Computes digests of operations: of all that decides about a request, with what it refers to."""

    def __init__(self, references: References) -> None:
        """Take the document."""
        self._references = references
        self._parameters: dict[int, tuple[str, frozenset[str]]] = {}
        self._targets: dict[str, tuple[str, frozenset[str]]] = {}
        self._reached: dict[frozenset[str], str] = {}

    def digest(self, operation: ApiOperation) -> str:
        """Return the digest of an operation."""
        body, security = operation.body, operation.security
        parameters = [self._parameter(each) for each in operation.parameters]
        schemes = None if security is None else [{name: [*each[name]] for name in each} for each in security]
        own: list[Json] = [
            operation.key,
            operation.summary,
            operation.description,
            operation.is_deprecated,
            [*operation.servers],
            cast("Json", schemes),
            [digest for digest, _ in parameters],
        ]
        if body is not None:
            own += [body.content_type, body.schema, body.is_required, body.encoding, body.description]
        names = frozenset[str]().union(*(found for _, found in parameters), _references_in(own))
        return _digest_of(own, self._closure(names))

    def _parameter(self, each: ApiParameter) -> tuple[str, frozenset[str]]:
        known = self._parameters.get(id(each))
        if known is None:
            styles: list[Json] = [each.name, each.where, each.style, each.explode, each.is_required]
            value: list[Json] = [*styles, each.allows_reserved, each.schema, each.description, each.content_type]
            known = self._parameters[id(each)] = _digest_of(value, ""), frozenset(_references_in(each.schema))
        return known

    def _closure(self, names: frozenset[str]) -> str:
        """Return a digest of all that some references lead to, and of all that is referred to from there."""
        if names not in self._reached:
            found: dict[str, str] = {}
            waiting = [*names]
            while waiting:
                name = waiting.pop()
                if name not in found:
                    found[name], following = self._target(name)
                    waiting += following
            self._reached[names] = _digest_of(dict[str, Json](found), "")
        return self._reached[names]

    def _target(self, reference: str) -> tuple[str, frozenset[str]]:
        known = self._targets.get(reference)
        if known is None:
            try:
                value = self._references.target(reference)
            except DocumentError:
                value = None  # it was reported where it is used
            known = self._targets[reference] = _digest_of(value, ""), frozenset(_references_in(value))
        return known


def _digest_of(value: Json, more: str) -> str:
    return hashlib.sha256(sorted_json(value) + more.encode()).hexdigest()[:16]


def _references_in(value: Json) -> Iterator[str]:
    waiting = [value]
    while waiting:
        each = waiting.pop()
        if isinstance(each, dict):
            reference = each.get("$ref")
            if isinstance(reference, str):
                yield reference
            waiting += each.values()
        elif isinstance(each, list):
            waiting += each
