"""Words and their signs."""

from hypothesis import example, given
from hypothesis import strategies as st

from agenttool.catalog.search.alphabet import Alphabet

TEXTS = st.text(alphabet="aBcd_ .\0é票", max_size=12)


@given(st.lists(TEXTS, max_size=6))
@example(["sendMail", "", "send_mail"])
@example(["a\0b", "c"])
@example(["打印发票", "print"])
def test_many_texts_are_read_as_each_of_them_is(texts):
    alphabet = Alphabet()
    assert list(alphabet.read_all(texts)) == [alphabet.read(each) for each in texts]


def test_a_sign_leads_back_to_its_word_however_many_there_are():
    alphabet = Alphabet()
    words = [f"w{number}" for number in range(70_000)]
    signs = alphabet.read(" ".join(words))
    assert [alphabet.word(each) for each in signs] == words
    assert "\0" not in signs
    assert signs.encode()
