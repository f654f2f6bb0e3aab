"""Text to comparable words: identifiers are split, endings are cut, scripts without spaces go by pairs of signs."""

import re
import unicodedata
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache, lru_cache
from typing import TYPE_CHECKING

from agenttool.catalog.search.sentences import sentences_of

if TYPE_CHECKING:
    from tantivy import TextAnalyzer

REMEMBERED = 4096
"""How many words are kept with their stems; people ask with few."""

LONGEST = 64
"""What is longer is data, and no word."""

_UNSPACED = "\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uac00-\ud7af\uf900-\ufaff"
_MARKED = "\u0300-\u036f\u0900-\u0dff"
"""Accents, and the scripts of India: their vowels are marks, which Python takes for no part of a word."""

BETWEEN = "\0"
"""The sign that no word has; it stands between two fields, and between two texts that are cut at once."""

_BLANKED = bytes(code if chr(code).isalnum() and code < 128 else 32 for code in range(256))  # noqa: PLR2004 -- ASCII
_BLANKED_BETWEEN = BETWEEN.encode() + _BLANKED[1:]
_RUNS = re.compile(rf"[{_UNSPACED}]+|(?:[^\W_{_UNSPACED}]|[{_MARKED}])+")
_STARTS_UNSPACED = re.compile(rf"[{_UNSPACED}]")
_HUMP = re.compile(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z]{2})")


def runs_of(text: str) -> Sequence[str | bytes]:
    """Cut a text where anything but letters and digits stands; capitals are left as they are.

    ASCII comes as bytes: that takes a third of the time, and is most of what catalogs are made of.
    """
    if text.isascii():
        return text.encode().translate(_BLANKED).split()
    return _RUNS.findall(unicodedata.normalize("NFKC", text))


def runs_of_all(texts: Sequence[str]) -> Sequence[bytes] | None:
    """Cut many texts at once, what stands `BETWEEN` every two; only if all are ASCII and have no such sign."""
    joined = f" {BETWEEN} ".join(texts)
    if not joined.isascii() or joined.count(BETWEEN) >= len(texts):
        return None
    return joined.encode().translate(_BLANKED_BETWEEN).split()


def words_of(run: str | bytes) -> list[str]:
    """Give the comparable words of a run of the catalog; of a script without spaces, its signs and their pairs."""
    if isinstance(run, bytes):
        run = run.decode()
        if run.islower() and len(run) <= LONGEST:
            return [stem(run)]  # most are
    elif _STARTS_UNSPACED.match(run):
        return [*run, *_pairs(run)]
    return [stem(part) for part in _parts(run)]


@dataclass(frozen=True, slots=True)
class Said:
    """One word of a query: comparable, as it was spelt, and the number of its sentence."""

    word: str
    spelling: str
    sentence: int


def said_words(query: str) -> list[Said]:
    """Give all words of a query in their order."""
    return [
        Said(word, spelling, number)
        for number, sentence in enumerate(sentences_of(query))
        for run in runs_of(sentence)
        for word, spelling in _asked(run if isinstance(run, str) else run.decode())
    ]


def _asked(run: str) -> Iterator[tuple[str, str]]:
    if _STARTS_UNSPACED.match(run):
        yield from ((pair, pair) for pair in (_pairs(run) or [run]))
    else:
        yield from ((stem(part), part) for part in _parts(run))


def _parts(run: str) -> list[str]:
    """Split an identifier; of two parts, such as `GitHub`, the whole is a word besides, for many write it small."""
    if len(run) > LONGEST:
        return []
    if run.islower() or run.isdigit():
        return [run]
    parts = _HUMP.sub(" ", run).casefold().split()
    return [*parts, "".join(parts)] if len(parts) == 2 else parts  # noqa: PLR2004 -- two


def spaced(identifier: str) -> str:
    """Write an identifier as people write words."""
    return _HUMP.sub(" ", identifier.replace("_", " ").replace(".", " ").replace("-", " ")).casefold()


def is_identifier(word: str) -> bool:
    """Tell whether a word of a query is written as names of tools are, and as words are not."""
    return "_" in word or "." in word or (not word.isupper() and _HUMP.search(word) is not None)


def _pairs(run: str) -> list[str]:
    return [run[at : at + 2] for at in range(len(run) - 1)]


def stem(word: str) -> str:
    """Cut the ending of an English word, so that `requests` and `request` are one."""
    return _stemmed(word) if word.isalpha() else word


@lru_cache(maxsize=REMEMBERED)
def _stemmed(word: str) -> str:
    return next(iter(_stemmer().analyze(word)), word)


@cache
def _stemmer() -> "TextAnalyzer":
    from tantivy import Filter, TextAnalyzerBuilder, Tokenizer  # noqa: PLC0415 -- only who searches pays for it

    return TextAnalyzerBuilder(Tokenizer.raw()).filter(Filter.stemmer("english")).build()
