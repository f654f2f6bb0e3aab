from hypothesis import given
from hypothesis import strategies as st

from agenttool.results.excerpt import count_lines, excerpt

lines = st.lists(st.text(st.characters(exclude_characters="\r\n", exclude_categories=["Cs"]), max_size=40), min_size=2)


def test_lines_are_counted_as_an_editor_counts_them():
    assert [count_lines(text) for text in ("", "a", "a\n", "a\nb", "\n\n")] == [0, 1, 1, 2, 2]


@given(lines, st.integers(0, 600))
def test_every_shown_line_is_a_line_of_the_text_under_its_own_number(texts, room):
    shown = excerpt("\n".join(texts), room)
    assert len(shown.text) <= max(room, 0)
    if not shown.in_lines or shown.missing_from == 1:
        return
    numbered = [line for line in shown.text.split("\n") if not line.startswith("… lines ")]
    for line in numbered:
        number, _, text = line.partition("| ")
        assert texts[int(number) - 1] == text
    assert len(numbered) == shown.missing_from - 1 + count_lines("\n".join(texts)) - shown.missing_to + 1


@given(st.text(max_size=300), st.integers(0, 400))
def test_what_is_missing_of_one_long_line_lies_between_what_is_shown(text, room):
    text = text.replace("\n", "")
    shown = excerpt(text, room)
    assert len(shown.text) <= room
    if shown.missing_from < shown.missing_to and room >= 120:
        assert shown.text.startswith(text[: shown.missing_from])
        assert shown.text.endswith(text[shown.missing_to :])
    elif room >= len(text):
        assert shown.text == text


def test_a_long_line_among_short_ones_is_cut_and_counted():
    shown = excerpt("short\n" + "x" * 900 + "\nshort again", 2000).text
    assert shown.split("\n") == ["1| short", f"2| {'x' * 300}… (600 more characters)", "3| short again"]
