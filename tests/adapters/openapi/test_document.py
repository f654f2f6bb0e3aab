"""Documents: JSON and YAML within bounds, and references."""

import pytest

from agenttool.adapters.openapi.document import DocumentError, References, external_references, parse


def test_yaml_is_read_as_yaml_1_2_with_text_keys():
    text = """
    responses: {200: a, 404: b}
    enum: [yes, no, on, off, NO, 2020-01-01, 1_000, 0o17, 1e3, ~, true, "7", 012]
    text: !!str 5
    base: &base {a: 1, b: 2}
    merged: {<<: *base, b: 3}
    """
    assert parse(text.encode()) == {
        "responses": {"200": "a", "404": "b"},
        "enum": ["yes", "no", "on", "off", "NO", "2020-01-01", "1_000", 15, 1000.0, None, True, "7", 12],
        "text": "5",
        "base": {"a": 1, "b": 2},
        "merged": {"a": 1, "b": 3},
    }


def test_json_with_a_byte_order_mark_is_read():
    assert parse(b'\xef\xbb\xbf {"a": 1}') == {"a": 1}


def test_a_yaml_bomb_is_refused():
    lines = ["a0: &a0 [x, x, x, x, x, x, x, x, x, x]"]
    lines += [f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 10)}]" for n in range(1, 12)]
    with pytest.raises(DocumentError, match="values with its aliases"):
        parse("\n".join(lines).encode())


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"[1]",
        b"just text",
        b'{"a": ',
        b"a: [1",
        b"\xff\xfe",
        b"a: *b",
        b"a: &a [*a]",
        b"[" * 5000,
        b'{"a":' * 5000,
        b"- " * 5000,
        b"a: !!python/object/apply:os.system [ls]\nb: {",
    ],
)
def test_what_is_no_document_is_refused_with_a_reason(data):
    with pytest.raises(DocumentError, match=";"):
        parse(data)


def test_references_are_followed_and_circles_are_reported():
    root = {"a": {"$ref": "#/b~1c/0"}, "b/c": [{"x": 1}], "d": {"$ref": "#/e"}, "e": {"$ref": "#/d"}}
    references = References(root, "main.json", {})
    assert references.resolve(root["a"], "/a") == {"x": 1}
    for value, reason in (
        (root["d"], "in a circle"),
        ({"$ref": "#/nothing"}, "leads to nothing"),
        ({"$ref": "other.json#/x"}, "may not refer to 'other.json'"),
        ({"$ref": "#name"}, "not a JSON pointer"),
        (3, "an object is expected"),
    ):
        with pytest.raises(DocumentError, match=reason) as caught:
            references.resolve(value, "/here")
        assert caught.value.pointer == "/here"


def test_documents_that_are_referred_to_are_found_without_parsing():
    data = b'{"$ref": "#/a", "b": {"$ref":"other.yaml#/x"}}\n$ref: \'third.json\'\n'
    assert external_references(data) == {"other.yaml", "third.json"}
