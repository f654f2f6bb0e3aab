"""Bytes with one for each tool, joined all at once; a mask has 255 for a tool that it lets through, and else zero."""

from itertools import compress

_TURNED = bytes(255 - code for code in range(256))
_THERE = bytes(255 if code else 0 for code in range(256))


def kept(codes: bytes, mask: bytes) -> bytes:
    """Give what a mask lets through, and zero for all else."""
    both = int.from_bytes(codes, "little") & int.from_bytes(mask, "little")
    return both.to_bytes(len(codes), "little")


def without(mask: bytes) -> bytes:
    """Let through what a mask holds back."""
    return mask.translate(_TURNED)


def there(codes: bytes) -> bytes:
    """Let through what is not zero."""
    return codes.translate(_THERE)


def numbers(mask: bytes) -> list[int]:
    """Give the places where a mask is not zero."""
    return list(compress(range(len(mask)), mask))
