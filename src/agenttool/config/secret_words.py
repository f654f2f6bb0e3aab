"""Which words of a command, headers and variables look like secrets: by the name of their place, or by their form."""

import re
from collections.abc import Callable, Iterable, Iterator

MASK = "[redacted]"
REFERENCE = re.compile(r"(\w+ )?\$\{credentials\.[^}]*\}")
"""The name of a credential in place of its value."""

_SECRET_NAME = re.compile(
    r"token|secret|passw|passphrase|api_?key|access_?key|private_?key|credential|authorization|cookie|bearer|connection_?string"
    r"|(?:^|_)(?:key|pass|pwd|auth|pat|dsn|jwt)(?:$|_)"
)
_SECRET_VALUE = re.compile(
    r"(?<![\w-])(?:(?:sk|pk|rk)[-_][\w-]{12,}|gh[pousr]_\w{16,}|github_pat_\w+|glpat-[\w-]{12,}|xox[a-z]-[\w-]{8,}|AKIA\w{12,}"
    r"|AIza[\w-]{20,}|ntn_\w{16,}|eyJ[\w-]{8,}\.[\w-]+\.[\w-]*|-----BEGIN |(?i:bearer|basic|token) [\w.~+/=-]{8,})"
    r"|\w[\w+.-]*://[^/\s:@]*:[^/\s@]+@"
)
_OPAQUE = re.compile(r"(?=(?:\D*\d){4})(?=[^A-Za-z]*[A-Za-z])[A-Za-z0-9_+=-]{24,}")
_PAIR = re.compile(r"(-{0,2}[A-Za-z_][\w-]*)(=)(.+)", re.DOTALL)
_HEADER = re.compile(r"([A-Za-z][\w-]*)(: *)(.+)", re.DOTALL)


def looks_secret(key: str, value: str) -> bool:
    """Return whether a text must not be written to a file: by the name of its place, or by its form."""
    name = re.sub(r"(?<=[a-z0-9])(?=[A-Z])|[^A-Za-z0-9]+", "_", key).lower()
    is_named = _SECRET_NAME.search(name) is not None and value.lower() not in ("true", "false", "none", "0", "1")
    is_opaque = _OPAQUE.fullmatch(value) is not None and not value.startswith(("/", "./", "--", "@"))
    return is_named or _SECRET_VALUE.search(value) is not None or is_opaque


def replace_secrets(words: Iterable[str], replace: Callable[[str, str], str]) -> Iterator[str]:
    """Yield the words of a command with each value replaced; `replace` gets the name of its place and the value.

    A value is a word, or what follows the name of an option, a variable or a header in the same word.
    """
    before = ""
    for word in words:
        found = _PAIR.fullmatch(word) or _HEADER.fullmatch(word)
        if found is not None and not word.partition(found[2])[2].startswith("//"):
            yield f"{found[1]}{found[2]}{replace(found[1], found[3])}"
        else:
            yield replace(before if before.startswith("-") and not word.startswith("-") else "arg", word)
        before = word


def masked_word(name: str, value: str) -> str:
    """Return a value for people to read: the value, or a mask if it looks like a secret."""
    return MASK if REFERENCE.fullmatch(value) is None and looks_secret(name, value) else value


def masked_text(command: str) -> str:
    """Return a command without the words that look like secrets."""
    return " ".join(replace_secrets(command.split(" "), masked_word))
