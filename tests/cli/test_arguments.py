import pytest

from agenttool.cli.arguments import read_arguments

TEXT = {"type": "string"}


def read(word, wanted=None):
    schema = {} if wanted is None else {"properties": {"x": wanted}}
    return read_arguments([f"x={word}"], None, None, schema)["x"]


@pytest.mark.parametrize("text", ['1, "b": 2', '1,"value":2', "{a", "two words", '"quoted" twice'])
def test_a_word_that_only_begins_like_json_is_text(text):
    assert read(text) == text


@pytest.mark.parametrize("word", ["1", "01234", "1.5", "true", "null", "[1]", '{"a": 1}'])
def test_where_the_tool_takes_text_a_word_is_text(word):
    assert read(word, TEXT) == word


@pytest.mark.parametrize(
    ("word", "wanted", "value"),
    [
        ("1", None, 1),
        ("1", {"type": "integer"}, 1),
        ("1", {"type": "number"}, 1),
        ("1", {"anyOf": [TEXT, {"type": "integer"}]}, 1),
        ("null", {"anyOf": [TEXT, {"type": "null"}]}, None),
        ("1", {"anyOf": [TEXT, {"type": "null"}]}, "1"),
        ("1", {"type": ["string", "null"]}, "1"),
        ('"1"', TEXT, "1"),
        ("1", {"$ref": "#/$defs/A"}, 1),
        ("yes", {"type": "integer"}, "yes"),
    ],
)
def test_a_word_is_json_where_the_tool_may_take_that(word, wanted, value):
    assert read(word, wanted) == value
