"""Text that is safe to print. This module imports nothing, because `agenttool --help` loads it (ADR 0007)."""


def printable(text: str, *, keep: str = "") -> str:
    """Return text with every control and invisible character escaped, except those in `keep`."""
    if text.isprintable():
        return text
    return "".join(each if each in keep or each.isprintable() else ascii(each)[1:-1] for each in text)


def one_line(text: str) -> str:
    """Return printable text on one line, so that untrusted text cannot imitate a line of ours."""
    return " ".join(map(printable, text.split()))
