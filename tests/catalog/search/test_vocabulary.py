"""Words and their symbols, and corrections of misspelled words."""

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from agenttool.catalog.search.vocabulary import Vocabulary

TEXTS = st.text(alphabet="aBcd_ .\0é票", max_size=12)


@given(st.lists(TEXTS, max_size=6))
@example(["sendMail", "", "send_mail"])
@example(["a\0b", "c"])
@example(["打印发票", "print"])
def test_many_texts_are_encoded_like_each_of_them(texts):
    vocabulary = Vocabulary()
    assert list(vocabulary.encode_all(texts)) == [vocabulary.encode(each) for each in texts]


def test_every_word_has_a_symbol_of_its_own():
    vocabulary = Vocabulary()
    words = [f"w{number}" for number in range(70_000)]
    symbols = vocabulary.encode(" ".join(words))
    assert [vocabulary.get(each) for each in words] == list(symbols)
    assert len(set(symbols)) == len(words)
    assert "\0" not in symbols
    assert symbols.encode()


@pytest.fixture
def vocabulary():
    vocabulary = Vocabulary()
    for word in ("station", "various", "email", "forecast"):
        assert vocabulary[word]
    return vocabulary


@pytest.mark.parametrize(
    ("misspelled", "corrected"),
    [("statoin", "station"), ("staton", "station"), ("stattion", "station"), ("forcast", "forecast")],
)
def test_a_misspelled_word_is_corrected(misspelled, corrected, vocabulary):
    assert [word for word, _ in vocabulary.corrections(misspelled)] == [corrected]


@pytest.mark.parametrize("word", ["situation", "furious", "mad"])
def test_a_different_word_of_similar_spelling_is_not_corrected(word, vocabulary):
    assert vocabulary.corrections(word) == []


def test_an_unknown_word_is_corrected_to_a_related_one(vocabulary):
    assert [word for word, _ in vocabulary.corrections("mail")] == ["email"]
