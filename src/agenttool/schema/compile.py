"""Schemas to reusable checkers, made once per content."""

from collections.abc import Callable
from functools import lru_cache
from typing import NoReturn, cast

import jsonschema_rs

from agenttool.codec import parse_object, sorted_json
from agenttool.errors import RecordError
from agenttool.records import Json, JsonObject
from agenttool.schema.explain import Misfit, explain

MAX_MISFITS = 20
"""How many misfits of one document are told; after that the reader has enough."""

MAX_BACKTRACKS = 100_000
"""How often a pattern may change its mind before it counts as not matched; a hostile one stops here."""

_PATIENCE = jsonschema_rs.FancyRegexOptions(backtrack_limit=MAX_BACKTRACKS)


def _refuse(uri: str) -> NoReturn:
    raise ValueError(f"a schema may not fetch {uri!r}; put the definition into the schema itself")


class Checker:
    """A compiled schema. It never fetches a `$ref`, and no pattern in it can hang.

    Attributes:
        accepts_parsed: tells whether a value that was read from JSON fits, without a detour through Python; such a
            value cannot hold half of a surrogate pair, which is all that `accepts` looks out for besides.
    """

    def __init__(self, schema: JsonObject) -> None:
        """Compile a schema; it is of draft 2020-12, unless its `$schema` names another that is known.

        Raises:
            RecordError: it is not a valid schema, or points outside of itself.
        """
        try:
            plain = cast("dict[str, object]", schema)
            self._validator = jsonschema_rs.validator_cls_for(plain)(
                plain,
                retriever=_refuse,
                pattern_options=_PATIENCE,
            )
        except (jsonschema_rs.ValidationError, ValueError) as error:
            first_line = str(error).splitlines()[0]
            raise RecordError(f"not a usable JSON Schema: {first_line}; correct the schema") from error
        self.accepts_parsed: Callable[[Json], bool] = self._validator.is_valid

    def accepts(self, value: Json) -> bool:
        """Tell whether a value fits, as fast as can be."""
        try:
            return self._validator.is_valid(value)
        except UnicodeEncodeError:
            return False

    def misfits(self, value: Json) -> list[Misfit]:
        """List what does not fit, at most `MAX_MISFITS`; nothing means that all is well."""
        found: list[Misfit] = []
        try:
            for error in self._validator.iter_errors(value):
                found.append(explain(error))
                if len(found) == MAX_MISFITS:
                    break
        except UnicodeEncodeError:
            found.append(Misfit(pointer="", expected="text in Unicode", advice="pair or remove the lone surrogate"))
        return found


@lru_cache(maxsize=4096)
def _compiled(spelling: bytes) -> Checker:
    return Checker(parse_object(spelling))


def compile_schema(schema: JsonObject) -> Checker:
    """Give the checker of a schema; equal schemas share one, whatever the order of their members.

    Raises:
        RecordError: it is not a valid schema, or points outside of itself.
    """
    return _compiled(sorted_json(schema))
