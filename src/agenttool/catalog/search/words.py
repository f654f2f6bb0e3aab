"""Text to comparable words: identifiers are split, endings are cut, scripts without spaces go by pairs of signs."""

import re
import unicodedata
from collections.abc import Iterator
from functools import cache, lru_cache
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tantivy import TextAnalyzer

_ASKING = """
a about all am an and any are as at be been but by can could did do does doing for from get give had has have help helps
her here him his how i if in into is it its just kindly let like look looking looks make may me might must my need
needed needs of on one or our out perform please should so some something such than that the their them then there these
they thing this those to tool tools try trying up us use used uses using via want wanted wants was way we were what
when where which who will wish with would you your
"""

REQUEST_WORDS = frozenset(_ASKING.split())
"""Words that say that somebody asks, and not for what."""

_UNSPACED = "\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uac00-\ud7af\uf900-\ufaff"
_RUNS = re.compile(rf"[{_UNSPACED}]+|[^\W_{_UNSPACED}]{{1,64}}")  # what is longer is data, and no word
_STARTS_UNSPACED = re.compile(rf"[{_UNSPACED}]")
_ASCII_RUNS = re.compile(r"[a-z0-9]{1,64}")
_HUMP = re.compile(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z]{2})")


def words_of(text: str) -> tuple[str, ...]:
    """Give the comparable words of a text of the catalog, in order; of a script without spaces, signs and pairs."""
    if text.isascii():
        return tuple(map(stem, _runs(text)))
    found: list[str] = []
    for run in _runs(text):
        if _is_unspaced(run):
            found += run
            found += _pairs(run)
        else:
            found.append(stem(run))
    return tuple(found)


def asked_words(query: str) -> dict[str, str]:
    """Give the comparable words of a query, each once, with the spelling it came in.

    Words of asking are left out, unless there are no others.
    """
    every = [(word, said) for run in _runs(query) for word, said in _asked(run)]
    telling = {word: said for word, said in every if said not in REQUEST_WORDS}
    return telling or dict(every)


def _asked(run: str) -> Iterator[tuple[str, str]]:
    if not _is_unspaced(run):
        yield stem(run), run
    else:
        yield from ((pair, pair) for pair in (_pairs(run) or [run]))


def _runs(text: str) -> list[str]:
    ascii_only = text.isascii()
    if not ascii_only:
        text = unicodedata.normalize("NFKC", text)
    if not text.islower():
        text = _HUMP.sub(" ", text).casefold()
    return (_ASCII_RUNS if ascii_only else _RUNS).findall(text)


def _is_unspaced(run: str) -> bool:
    return _STARTS_UNSPACED.match(run) is not None


def _pairs(run: str) -> list[str]:
    return [run[at : at + 2] for at in range(len(run) - 1)]


@lru_cache(maxsize=200_000)
def stem(word: str) -> str:
    """Cut the ending of an English word, so that `requests` and `request` are one."""
    return next(iter(_stemmer().analyze(word)), word)


@cache
def _stemmer() -> "TextAnalyzer":
    from tantivy import Filter, TextAnalyzerBuilder, Tokenizer  # noqa: PLC0415 -- only who searches pays for it

    return TextAnalyzerBuilder(Tokenizer.raw()).filter(Filter.stemmer("english")).build()
