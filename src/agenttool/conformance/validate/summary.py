"""The figures of a run, and how findings and figures are written for programs."""

import msgspec

from agenttool.conformance.validate.finding import Finding

_encoder = msgspec.json.Encoder()


class Summary(msgspec.Struct, frozen=True, kw_only=True, tag_field="type", tag="summary"):
    """What was read and how it went; `unreadable` counts the documents of which nothing could be checked."""

    files: int
    bytes: int
    records: dict[str, int]
    unreadable: int
    errors: int
    warnings: int

    @property
    def is_clean(self) -> bool:
        """Nothing was found at all."""
        return not self.errors and not self.warnings


def json_line(said: Finding | Summary) -> bytes:
    """Write one line of JSON; its `type` says which of the two it is."""
    return _encoder.encode(said) + b"\n"
