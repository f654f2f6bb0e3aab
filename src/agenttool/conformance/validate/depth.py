"""How deep a document is nested, told without parsing it: the parser recurses, this does not."""

MAX_DEPTH = 200
"""Deeper documents are refused; no record needs a tenth of it, and no parser of ours can be made to overflow."""

_BRACKETS = b"[]{}"
_OTHERS = bytes(set(range(256)) - set(_BRACKETS))
_ONE_KIND = bytes.maketrans(b"{}", b"[]")


def is_too_deep(data: bytes, limit: int = MAX_DEPTH) -> bool:
    """Tell whether arrays and objects stand in one another more than `limit` levels deep.

    Right for everything a parser would get to see: up to the first fault of a broken document the two agree, and
    beyond it a parser does not go. Works by peeling: each round takes away the innermost pairs.
    """
    if data.count(b"{") + data.count(b"[") <= limit:
        return False
    nest = _outside_strings(data).translate(_ONE_KIND, _OTHERS)
    if b"[" * (limit + 1) in nest:
        return True
    for _ in range(limit):
        peeled = nest.replace(b"[]", b"")
        if len(peeled) == len(nest):
            break
        nest = peeled
    return b"[]" in nest or nest.count(b"[") > limit


def _outside_strings(data: bytes) -> bytes:
    if b"\\" in data:
        data = data.replace(b"\\\\", b"").replace(b'\\"', b"")
    return b"".join(data.split(b'"')[::2])
