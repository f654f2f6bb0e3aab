"""A word is found in its other forms."""

import pytest

from agenttool.catalog.search.forms import forms_of
from agenttool.catalog.search.words import stem


@pytest.mark.parametrize(
    ("said", "written"),
    [
        ("repo", "repositories"),
        ("configuration", "cfg"),
        ("subscribed", "subscriptions"),
        ("summarize", "summary"),
        ("sold", "selling"),
        ("children", "child"),
        ("tall", "height"),
        ("colours", "color"),
    ],
)
def test_a_word_has_forms_that_no_ending_tells_either_way(said, written):
    assert stem(written) in forms_of(stem(said))
    assert stem(said) in forms_of(stem(written))


def test_a_word_is_no_form_of_itself_nor_has_any_other_word_forms():
    assert stem("request") not in forms_of(stem("requests"))
    assert forms_of("zebra") == ()
