"""Parameters and bodies: every style of the specification's table and every media type, as a service receives them."""

import base64
import email
import json
from urllib.parse import parse_qsl

import pytest
from openapi_documents import document, operation

COLOR = {"string": "blue", "array": ["blue", "black", "brown"], "object": {"R": 100, "G": 200, "B": 150}}
TABLE = [
    ("path", "simple", False, "string", "/c/blue"),
    ("path", "simple", False, "array", "/c/blue,black,brown"),
    ("path", "simple", False, "object", "/c/R,100,G,200,B,150"),
    ("path", "simple", True, "array", "/c/blue,black,brown"),
    ("path", "simple", True, "object", "/c/R=100,G=200,B=150"),
    ("path", "label", False, "string", "/c/.blue"),
    ("path", "label", False, "array", "/c/.blue,black,brown"),
    ("path", "label", False, "object", "/c/.R,100,G,200,B,150"),
    ("path", "label", True, "array", "/c/.blue.black.brown"),
    ("path", "label", True, "object", "/c/.R=100.G=200.B=150"),
    ("path", "matrix", False, "string", "/c/;color=blue"),
    ("path", "matrix", False, "array", "/c/;color=blue,black,brown"),
    ("path", "matrix", False, "object", "/c/;color=R,100,G,200,B,150"),
    ("path", "matrix", True, "array", "/c/;color=blue;color=black;color=brown"),
    ("path", "matrix", True, "object", "/c/;R=100;G=200;B=150"),
    ("query", "form", False, "string", "/c?color=blue"),
    ("query", "form", False, "array", "/c?color=blue,black,brown"),
    ("query", "form", False, "object", "/c?color=R,100,G,200,B,150"),
    ("query", "form", True, "array", "/c?color=blue&color=black&color=brown"),
    ("query", "form", True, "object", "/c?R=100&G=200&B=150"),
    ("query", "spaceDelimited", False, "array", "/c?color=blue%20black%20brown"),
    ("query", "spaceDelimited", False, "object", "/c?color=R%20100%20G%20200%20B%20150"),
    ("query", "pipeDelimited", False, "array", "/c?color=blue%7Cblack%7Cbrown"),
    ("query", "pipeDelimited", False, "object", "/c?color=R%7C100%7CG%7C200%7CB%7C150"),
    ("query", "deepObject", True, "object", "/c?color%5BR%5D=100&color%5BG%5D=200&color%5BB%5D=150"),
]


def parameter(where="query", name="color", **members):
    return {"name": name, "in": where, "schema": {}, "required": where == "path", **members}


async def requested(open_service, service, *parameters, path="/c", **arguments):
    async with open_service(document({path: {"get": operation(*parameters, operationId="probe")}})) as rt:
        result = await rt.call("probe.probe", arguments)
        assert result.ok, result.error
    return service.last


async def test_each_style_is_written_as_in_the_table_of_the_specification(open_service, service):
    paths = {}
    for number, (where, style, explode, _, _) in enumerate(TABLE):
        path = f"/{number}/c/{{color}}" if where == "path" else f"/{number}/c"
        given = parameter(where, style=style, explode=explode)
        paths[path] = {"get": operation(given, operationId=f"probe{number}")}
    async with open_service(document(paths)) as rt:
        for number, (*_, kind, _) in enumerate(TABLE):
            assert (await rt.call(f"probe.probe{number}", {"color": COLOR[kind]})).ok
    expected = [f"/{number}{path}" for number, (*_, path) in enumerate(TABLE)]
    assert [each["path"] for each in service.requests] == expected


async def test_a_query_parameter_explodes_by_default(open_service, service):
    sent = await requested(open_service, service, parameter(), color=["a", "b"])
    assert sent["path"] == "/c?color=a&color=b"


async def test_an_array_in_the_path_is_joined_by_commas_by_default(open_service, service):
    sent = await requested(open_service, service, parameter("path"), path="/c/{color}", color=["a/b", "c d"])
    assert sent["path"] == "/c/a%2Fb,c%20d"


async def test_a_nested_deep_object_has_a_name_for_each_level(open_service, service):
    given = parameter(style="deepObject", explode=True)
    sent = await requested(open_service, service, given, color={"a": {"b": 1}, "c": ["x", "y"]})
    assert sent["path"] == "/c?color%5Ba%5D%5Bb%5D=1&color%5Bc%5D=x&color%5Bc%5D=y"


async def test_reserved_characters_stay_only_where_the_document_allows_them(open_service, service):
    given = [parameter(), parameter(name="raw", allowReserved=True)]
    sent = await requested(open_service, service, *given, color="a/b?c&d", raw="a/b?c:d=e")
    assert sent["path"] == "/c?color=a%2Fb%3Fc%26d&raw=a/b?c:d=e"


async def test_an_argument_with_reserved_characters_adds_no_parameter(open_service, service):
    given = [parameter(name="raw", allowReserved=True), parameter(name="o", allowReserved=True), parameter(name="z")]
    sent = await requested(open_service, service, *given, raw="x&key=evil#+", o={"tenant=me": "1"}, z="last")
    assert parse_qsl(sent["path"].partition("?")[2]) == [("raw", "x&key=evil#+"), ("tenant=me", "1"), ("z", "last")]


async def test_a_parameter_with_content_is_json_in_the_query(open_service, service):
    given = {"name": "filter", "in": "query", "content": {"application/json": {"schema": {"type": "object"}}}}
    sent = await requested(open_service, service, given, filter={"a": [1]})
    assert sent["path"] == "/c?filter=%7B%22a%22%3A%5B1%5D%7D"


async def test_headers_and_cookies_have_their_styles(open_service, service):
    given = [parameter("header", "X-A"), parameter("header", "X-B", explode=True), parameter("cookie", "c")]
    sent = await requested(open_service, service, *given, **{"X-A": [1, 2], "X-B": {"k": "v"}, "c": "d e"})
    assert [sent["headers"][name] for name in ("x-a", "x-b", "cookie")] == ["1,2", "k=v", "c=d%20e"]


async def test_arguments_that_were_not_given_are_not_sent(open_service, service):
    given = [parameter(name=name, schema={"type": "string", "nullable": True, "default": "x"}) for name in "abc"]
    sent = await requested(open_service, service, *given, b="1", c=None)
    assert sent["path"] == "/c?b=1"


async def test_booleans_and_numbers_are_written_as_in_json(open_service, service):
    given = [parameter(name=name) for name in ("a", "b", "c")]
    sent = await requested(open_service, service, *given, a=True, b=1.5, c=2.0)
    assert sent["path"] == "/c?a=true&b=1.5&c=2"


@pytest.mark.parametrize("value", ["", ".", ".."])
async def test_a_path_parameter_cannot_change_the_path(open_service, service, value):
    async with open_service(document({"/c/{id}": {"get": operation(parameter("path", "id"), operationId="g")}})) as rt:
        result = await rt.call("probe.g", {"id": value})
    assert result.error.error_class.value == "invalid_arguments"
    assert not service.requests


async def test_a_header_cannot_start_another_header(open_service, service):
    given = parameter("header", "X-A")
    async with open_service(document({"/c": {"get": operation(given, operationId="g")}})) as rt:
        result = await rt.call("probe.g", {"X-A": "a\r\nX-Evil: 1"})
    assert result.error.error_class.value == "invalid_arguments"
    assert not service.requests


async def test_parameters_of_one_name_in_two_places_are_two_arguments(open_service, service):
    given = [parameter("path", "id"), parameter("query", "id"), parameter("query", "filter[a]")]
    sent = await requested(open_service, service, *given, path="/c/{id}", id="1", id_query="2", filter_a="3")
    assert sent["path"] == "/c/1?id=2&filter%5Ba%5D=3"


def body(content_type, schema, *, required=True, **media):
    return {"required": required, "content": {content_type: {"schema": schema, **media}}}


def members(**properties):
    return {"type": "object", "properties": properties}


async def posted(open_service, service, given, arguments, **settings):
    async with open_service(
        document({"/things": {"post": operation(body=given, operationId="make")}}), **settings
    ) as rt:
        result = await rt.call("probe.make", arguments)
        assert result.ok, result.error
    return service.last


async def test_the_members_of_a_json_object_are_arguments_and_null_is_sent_only_if_given(open_service, service):
    text = {"type": "string", "nullable": True}
    given = body("application/json", members(a=text, b=text, c=text))
    sent = await posted(open_service, service, given, {"a": "x", "b": None})
    assert sent["headers"]["content-type"] == "application/json"
    assert json.loads(sent["body"]) == {"a": "x", "b": None}


async def test_a_body_that_is_not_a_simple_object_is_one_argument(open_service, service):
    schema = {"oneOf": [members(a={"type": "string"}), {"type": "array", "items": {"type": "integer"}}]}
    sent = await posted(open_service, service, body("application/json", schema), {"body": [1, 2]})
    assert json.loads(sent["body"]) == [1, 2]


async def test_an_optional_body_is_left_out(open_service, service):
    given = body("application/json", members(a={"type": "string"}), required=False)
    sent = await posted(open_service, service, given, {})
    assert (sent["body"], "content-type" in sent["headers"]) == (b"", False)


async def test_a_form_repeats_lists_and_has_the_styles_of_its_encoding(open_service, service):
    schema = members(tags={"type": "array", "items": {"type": "string"}}, card={"type": "object"}, note={}, meta={})
    encoding = {"card": {"style": "deepObject", "explode": True}}
    given = body("application/x-www-form-urlencoded", schema, encoding=encoding)
    arguments = {"tags": ["a", "b"], "card": {"number": "4", "owner": {"name": "x y"}}, "note": "a&b", "meta": {"k": 1}}
    sent = await posted(open_service, service, given, arguments)
    assert parse_qsl(sent["body"].decode()) == [
        ("tags", "a"),
        ("tags", "b"),
        ("card[number]", "4"),
        ("card[owner][name]", "x y"),
        ("note", "a&b"),
        ("meta", '{"k":1}'),
    ]


def parts_of(sent):
    """Return the parts of a multipart request: name, file name, type and content."""
    head = f"Content-Type: {sent['headers']['content-type']}\r\n\r\n".encode()
    return [
        (
            each.get_param("name", header="Content-Disposition"),
            each.get_filename(),
            each.get_content_type(),
            each.get_payload(decode=True),
        )
        for each in email.message_from_bytes(head + sent["body"]).get_payload()
    ]


async def test_multipart_has_files_texts_and_json(open_service, service):
    file = {"type": "string", "format": "binary"}
    schema = members(one=file, many={"type": "array", "items": file}, meta={"type": "object"}, note={"type": "string"})
    image = {"base64": base64.b64encode(b"\x89PNG").decode(), "filename": "a.png", "content_type": "image/png"}
    arguments = {"one": "plain", "many": [image, image], "meta": {"k": [1]}, "note": "hi"}
    given = body("multipart/form-data", schema, encoding={"one": {"contentType": "text/csv"}})
    sent = await posted(open_service, service, given, arguments)
    assert parts_of(sent) == [
        ("one", "one", "text/csv", b"plain"),
        ("many", "a.png", "image/png", b"\x89PNG"),
        ("many", "a.png", "image/png", b"\x89PNG"),
        ("meta", None, "application/json", b'{"k":[1]}'),
        ("note", None, "text/plain", b"hi"),
    ]


FILE = {"type": "string", "format": "binary"}
UPLOADS = {
    "Upload": members(file=FILE, name={"type": "string"}) | {"required": ["file"]},
    "Optional": members(file={"anyOf": [FILE, {"type": "null"}]}),
    "Image": FILE,
    "Named": members(file={"$ref": "#/components/schemas/Image"}),
    "Composed": {"allOf": [{"$ref": "#/components/schemas/Upload"}, members(note={"type": "string"})]},
    "Many": members(file={"type": "array", "items": {"$ref": "#/components/schemas/Image"}}),
}


@pytest.mark.parametrize("name", ["Upload", "Optional", "Named", "Composed", "Many"])
async def test_a_file_is_found_however_the_document_describes_it(open_service, service, name):
    given = body("multipart/form-data", {"$ref": f"#/components/schemas/{name}"})
    found = document({"/c": {"post": operation(operationId="probe", body=given)}}, components={"schemas": UPLOADS})
    async with open_service(found | {"openapi": "3.1.0"}) as rt:
        for file in ("text", {"base64": base64.b64encode(b"text").decode(), "filename": "file"}):
            result = await rt.call("probe.probe", {"file": [file] if name == "Many" else file})
            assert result.ok, result.error
            assert parts_of(service.last) == [("file", "file", "application/octet-stream", b"text")]


async def test_a_body_with_a_file_is_multipart_also_if_the_document_lists_json(open_service, service):
    schema = {"schema": members(file=FILE, name={"type": "string"})}
    kinds = ("application/json", "application/x-www-form-urlencoded", "multipart/form-data")
    sent = await posted(open_service, service, {"content": dict.fromkeys(kinds, schema)}, {"file": "x", "name": "n"})
    parts = [("file", "file", "application/octet-stream", b"x"), ("name", None, "text/plain", b"n")]
    assert parts_of(sent) == parts


async def test_a_list_of_swagger_2_is_one_part_with_commas(open_service, service):
    tags = {"name": "tags", "in": "formData", "type": "array", "items": {"type": "string"}}
    post = operation(tags, {"name": "file", "in": "formData", "type": "file"}, operationId="probe")
    async with open_service({"swagger": "2.0", "info": {}, "paths": {"/c": {"post": post}}}) as rt:
        assert (await rt.call("probe.probe", {"tags": ["a", "b"]})).ok
    assert parts_of(service.last) == [("tags", None, "text/plain", b"a,b")]


async def test_binary_data_and_xml_are_sent_as_they_are(open_service, service):
    given = body("application/octet-stream", {"type": "string", "format": "binary"})
    sent = await posted(open_service, service, given, {"body": {"base64": base64.b64encode(b"\x00\x01").decode()}})
    assert (sent["headers"]["content-type"], sent["body"]) == ("application/octet-stream", b"\x00\x01")
    sent = await posted(open_service, service, body("application/xml", members(a={})), {"body": "<a>ü</a>"})
    assert (sent["headers"]["content-type"], sent["body"].decode()) == ("application/xml", "<a>ü</a>")


@pytest.mark.parametrize(
    ("media", "value", "lines"),
    [
        ({"schema": {"type": "array", "items": {"type": "object"}}}, [{"a": 1}, {"b": 2}], b'{"a":1}\n{"b":2}\n'),
        ({"itemSchema": {"type": "object"}}, [{"a": 1}, {"b": 2}], b'{"a":1}\n{"b":2}\n'),
        ({"schema": {"type": "object"}}, {"a": 1}, b'{"a":1}\n'),
        ({"schema": {"type": "string"}}, '{"a":1}\n', b'{"a":1}\n'),
    ],
)
async def test_json_lines_have_one_line_for_each_item(open_service, service, media, value, lines):
    given = {"required": True, "content": {"application/x-ndjson": media}}
    sent = await posted(open_service, service, given, {"body": value})
    assert (sent["headers"]["content-type"], sent["body"]) == ("application/x-ndjson", lines)


async def test_members_that_only_responses_have_are_no_arguments(open_service, service):
    schema = members(id={"type": "integer", "readOnly": True}, name={"type": "string"}) | {"required": ["id", "name"]}
    sent = await posted(open_service, service, body("application/json", schema), {"name": "x"})
    assert json.loads(sent["body"]) == {"name": "x"}
