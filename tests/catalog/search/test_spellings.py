"""Words that are written like those of a catalog."""

import pytest

from agenttool.catalog.search.spellings import Spellings


@pytest.fixture
def spellings():
    spellings = Spellings()
    spellings.learn(["station", "various", "email", "forecast"], range(4))
    return spellings


@pytest.mark.parametrize(
    ("slip", "meant"),
    [("statoin", "station"), ("staton", "station"), ("stattion", "station"), ("forcast", "forecast")],
)
def test_a_slip_of_the_pen_means_the_word_that_the_catalog_has(slip, meant, spellings):
    assert [word for word, _ in spellings.meant_by(slip)] == [meant]


@pytest.mark.parametrize("word", ["situation", "furious", "mad"])
def test_another_word_that_looks_like_one_of_the_catalog_does_not_mean_it(word, spellings):
    assert spellings.meant_by(word) == ()


def test_a_word_of_the_same_descent_is_a_relative(spellings):
    assert [word for word, _ in spellings.relatives("mail")] == ["email"]
