import pytest

from agenttool.cli.call import read_arguments

TEXT = {"type": "string"}


def read(word, wanted=None):
    schema = {} if wanted is None else {"properties": {"x": wanted}}
    return read_arguments([f"x={word}"], None, None).for_schema(schema)["x"]


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
        ("1", {**TEXT, "minLength": 3}, "1"),
        ("1", {"$ref": "#/$defs/A"}, 1),
        ("yes", {"type": "integer"}, "yes"),
        ("1", {"enum": ["1", "2"]}, "1"),
        ("1", {"enum": [1, "1"]}, 1),
        ("1", {"const": "1"}, "1"),
        ("1", {"anyOf": "rubbish", "enum": "rubbish"}, 1),
    ],
)
def test_a_word_is_json_where_the_tool_may_take_that(word, wanted, value):
    assert read(word, wanted) == value


@pytest.mark.parametrize(
    ("ref", "value"),
    [("#/$defs/A", "1"), ("#/$defs/B", 1), ("#/$defs/C", "1"), ("#/$defs/D~1E", "1"), ("#/x/y", 1), ("https://x", 1)],
)
def test_references_within_a_schema_are_followed_and_cycles_end(ref, value):
    defs = {"A": TEXT, "B": {"$ref": "#/$defs/B"}, "C": {"anyOf": [{"$ref": "#/$defs/A"}]}, "D/E": TEXT}
    schema = {"properties": {"x": {"$ref": ref}}, "$defs": defs}
    assert read_arguments(["x=1"], None, None).for_schema(schema) == {"x": value}


def test_words_override_arguments_given_as_json():
    assert read_arguments(["x=1"], '{"x": 2, "y": 3}', None).for_schema({}) == {"x": 1, "y": 3}
