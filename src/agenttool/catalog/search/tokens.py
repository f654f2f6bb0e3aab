"""Split text into comparable words: identifiers are split, English endings are removed.

Scripts without spaces between words, such as Chinese, are indexed by single characters and pairs of characters.
"""

import re
import unicodedata
from collections.abc import Iterator, Sequence
from functools import cache, lru_cache
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tantivy import TextAnalyzer

CACHED_STEMS = 4096

MAX_WORD_LENGTH = 64
"""A longer run of letters and digits is data, not a word."""

SEPARATOR = "\0"
"""A character that no word contains. It separates fields, and texts that are split together."""

_UNSPACED = "\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uac00-\ud7af\uf900-\ufaff"
_MARKS = "\u0300-\u036f\u0900-\u0dff"
"""Accents, and Indic scripts: `\\w` does not match their vowel marks."""

_TO_BLANKS = bytes(code if chr(code).isalnum() and code < 128 else 32 for code in range(256))  # noqa: PLR2004 -- ASCII
_TO_BLANKS_OR_SEPARATOR = SEPARATOR.encode() + _TO_BLANKS[1:]
_RUNS = re.compile(rf"[{_UNSPACED}]+|(?:[^\W_{_UNSPACED}]|[{_MARKS}])+")
_STARTS_UNSPACED = re.compile(rf"[{_UNSPACED}]")
_PERSON_ENDING = re.compile(r"(?<=[a-z]{5})ees?$")
"""The ending of an assignee, attendee or employee, which the stemmer does not remove."""

_CASE_CHANGE = re.compile(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z]{2})")

_REQUEST_VERBS = """
add analyze assign book build buy calculate cancel check compare compute convert create delete describe determine
disable download edit email enable estimate explain export fetch figure find generate get give identify import inform
insert launch let list locate look make merge modify move notify open order pay plan play post provide publish read
recommend register remind remove rename reserve retrieve run save schedule search see select send set share show start
stop store suggest summarize tell translate turn update upload verify view write
"""
_BEFORE_VERB = f"(?=(?:{'|'.join(_REQUEST_VERBS.split())})\\s)"

_MARK = r"(?<![.!?;])[.!?;]+(?:\s+|$) | \n | [。！？；]"  # noqa: RUF001 -- Chinese punctuation
_SENTENCE_END = re.compile(_MARK, re.VERBOSE)
_REQUEST_END = re.compile(
    rf"""{_MARK}
    | ,\s+(?:and|but|then|also)\s | ,?\s(?:and\s+)?(?:then|also|after\ that|afterwards|finally)\s
    | ,\s+{_BEFORE_VERB} | \sand\s+{_BEFORE_VERB}
    | [，,]?(?:然后|接着|另外|此外|并且) | ，[并再]""",  # noqa: RUF001 -- Chinese punctuation
    re.IGNORECASE | re.VERBOSE,
)


def split_statements(text: str) -> list[str]:
    """Split a description into sentences."""
    return _SENTENCE_END.split(text)


def split_requests(query: str) -> list[str]:
    """Split a query into sentences, and also where a conjunction or a verb starts another request."""
    return _REQUEST_END.split(query)


def split_runs(text: str) -> Sequence[str | bytes]:
    """Split a text at everything that is neither a letter nor a digit; case is preserved.

    ASCII text yields bytes, because that takes a third of the time.
    """
    if text.isascii():
        return text.encode().translate(_TO_BLANKS).split()
    return _RUNS.findall(unicodedata.normalize("NFKC", text))


def split_all_runs(texts: Sequence[str]) -> Sequence[bytes] | None:
    """Split many texts together, with `SEPARATOR` between them; None unless all are ASCII without a separator."""
    joined = f" {SEPARATOR} ".join(texts)
    if not joined.isascii() or joined.count(SEPARATOR) >= len(texts):
        return None
    return joined.encode().translate(_TO_BLANKS_OR_SEPARATOR).split()


def words_in_run(run: str | bytes) -> list[str]:
    """Return the comparable words of a run of a tool's text."""
    if isinstance(run, bytes):
        run = run.decode()
        if run.islower() and len(run) <= MAX_WORD_LENGTH:
            return [stem(run)]  # the common case
    elif _STARTS_UNSPACED.match(run):
        return [*run, *_pairs(run)]
    return [stem(part) for part in _parts(run)]


def tokens_in_query(query: str) -> Iterator[tuple[str, str]]:
    """Yield all words of a query in their order, each in its comparable form and as it is spelled."""
    for each in split_runs(query):
        run = each if isinstance(each, str) else each.decode()
        if _STARTS_UNSPACED.match(run):
            yield from ((pair, pair) for pair in (_pairs(run) or [run]))
        else:
            yield from ((stem(part), part) for part in _parts(run))


def _parts(run: str) -> list[str]:
    """Split an identifier; a name of two parts, such as `GitHub`, is a word as a whole, too."""
    if len(run) > MAX_WORD_LENGTH:
        return []
    if run.islower() or run.isdigit():
        return [run]
    parts = _CASE_CHANGE.sub(" ", run).casefold().split()
    return [*parts, "".join(parts)] if len(parts) == 2 else parts  # noqa: PLR2004 -- two


def spaced(identifier: str) -> str:
    """Return an identifier as lower-case words with spaces between them."""
    return _CASE_CHANGE.sub(" ", identifier.replace("_", " ").replace(".", " ").replace("-", " ")).casefold()


def is_identifier(word: str) -> bool:
    """Return whether a word of a query is written like the name of a tool."""
    return "_" in word or "." in word or (not word.isupper() and _CASE_CHANGE.search(word) is not None)


def _pairs(run: str) -> list[str]:
    return [run[at : at + 2] for at in range(len(run) - 1)]


def stem(word: str) -> str:
    """Remove the ending of an English word, so that `requests` and `request` are the same."""
    return _stem(word) if word.isalpha() else word


@lru_cache(maxsize=CACHED_STEMS)
def _stem(word: str) -> str:
    return next(iter(_stemmer().analyze(_PERSON_ENDING.sub("", word))), word)


@cache
def _stemmer() -> "TextAnalyzer":
    from tantivy import Filter, TextAnalyzerBuilder, Tokenizer  # noqa: PLC0415 -- loaded by the first search

    return TextAnalyzerBuilder(Tokenizer.raw()).filter(Filter.stemmer("english")).build()
