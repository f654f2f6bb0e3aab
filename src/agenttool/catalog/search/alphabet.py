"""Every word of a catalog as one sign: a tool becomes one short string, compared at the speed of strings."""

from collections.abc import Sequence

from agenttool.catalog.search.words import runs_of, words_of

BETWEEN = "\0"
"""The sign that no word has; it stands between two fields."""

REMEMBERED = 1 << 16
"""How many spellings are kept together with their signs, before all are read anew."""

_SURROGATES, _LAST = range(0xD800, 0xE000), 0x10FFFF


class Alphabet:
    """Words and their signs: a character each, by the order of their coming, whatever it means elsewhere."""

    def __init__(self) -> None:
        """Begin with no words."""
        self._codes: dict[str, int] = {}
        self._words: list[str] = []
        self._remembered = _Remembered(self)

    @property
    def words(self) -> Sequence[str]:
        """All words, in the order of their coming."""
        return self._words

    def read(self, text: str) -> str:
        """Give the signs of all words of a text, and learn the words that are new."""
        return "".join(map(self._remembered.__getitem__, runs_of(text))) if text else ""

    def sign(self, word: str) -> str | None:
        """Give the sign of a word, if any tool ever had the word."""
        code = self._codes.get(word)
        return None if code is None else chr(code)

    def word(self, sign: str) -> str:
        """Give the word of a sign."""
        code = ord(sign)
        return self._words[code - 1 - (len(_SURROGATES) if code > _SURROGATES.start else 0)]

    def learn(self, word: str) -> str:
        """Give the sign of a word; one that is new gets the next. A catalog of a million words has said enough."""
        code = self._codes.get(word)
        if code is None:
            code = len(self._words) + 1
            if code >= _SURROGATES.start:
                code += len(_SURROGATES)  # they cannot be written as UTF-8
            if code > _LAST:
                return ""
            self._codes[word] = code
            self._words.append(word)
        return chr(code)


class _Remembered(dict[str | bytes, str]):
    """The signs of the spellings that were met lately; most texts are made of few."""

    def __init__(self, alphabet: Alphabet) -> None:
        super().__init__()
        self._alphabet = alphabet

    def __missing__(self, run: str | bytes) -> str:
        if len(self) >= REMEMBERED:
            self.clear()
        signs = self[run] = "".join(map(self._alphabet.learn, words_of(run)))
        return signs
