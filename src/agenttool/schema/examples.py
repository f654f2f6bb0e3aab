"""Examples that a model will follow: each must fit the schema that it is an example of."""

from collections.abc import Iterable

from agenttool.errors import ConfigError
from agenttool.records import Json
from agenttool.schema.compile import Checker


def refuse_unfit_examples(examples: Iterable[Json], checker: Checker, tool: str) -> None:
    """Hold examples to the schema that a model is shown (AT-IO-05).

    Raises:
        ConfigError: one does not fit; says which, where and what to do.
    """
    for place, example in enumerate(examples, 1):
        if not checker.accepts(example):
            first = checker.misfits(example)[0]
            raise ConfigError(
                f"example {place} of {tool!r} does not fit its schema at {first.pointer or '/'!r}: "
                f"expected {first.expected}; {first.advice}"
            )
