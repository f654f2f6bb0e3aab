import pytest


@pytest.mark.parametrize("kind", ["tool_declaration", "tool_interface", "deferred_tool_ref"])
def test_a_search_hint_has_three_to_ten_words(check, record, kind):
    for words, wanted in ((2, 1), (3, 0), (10, 0), (11, 1), (0, 1)):
        found = check(record(kind, search_hint=" ".join(["word"] * words)))
        assert found == [("warning", "/search_hint", "AT-DECL-07")] * wanted
