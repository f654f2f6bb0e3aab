"""Request bodies: what a service receives for each media type."""

import base64
import email
import json
from urllib.parse import parse_qsl

from openapi_documents import document, operation


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


async def test_multipart_has_files_texts_and_json(open_service, service):
    file = {"type": "string", "format": "binary"}
    schema = members(one=file, many={"type": "array", "items": file}, meta={"type": "object"}, note={"type": "string"})
    image = {"base64": base64.b64encode(b"\x89PNG").decode(), "filename": "a.png", "content_type": "image/png"}
    arguments = {"one": "plain", "many": [image, image], "meta": {"k": [1]}, "note": "hi"}
    given = body("multipart/form-data", schema, encoding={"one": {"contentType": "text/csv"}})
    sent = await posted(open_service, service, given, arguments)
    head = f"Content-Type: {sent['headers']['content-type']}\r\n\r\n".encode()
    parts = email.message_from_bytes(head + sent["body"]).get_payload()
    assert [
        (each.get_param("name", header="Content-Disposition"), each.get_filename(), each.get_content_type(), payload)
        for each in parts
        for payload in [each.get_payload(decode=True)]
    ] == [
        ("one", "one", "text/csv", b"plain"),
        ("many", "a.png", "image/png", b"\x89PNG"),
        ("many", "a.png", "image/png", b"\x89PNG"),
        ("meta", None, "application/json", b'{"k":[1]}'),
        ("note", None, "text/plain", b"hi"),
    ]


async def test_binary_data_and_xml_are_sent_as_they_are(open_service, service):
    given = body("application/octet-stream", {"type": "string", "format": "binary"})
    sent = await posted(open_service, service, given, {"body": {"base64": base64.b64encode(b"\x00\x01").decode()}})
    assert (sent["headers"]["content-type"], sent["body"]) == ("application/octet-stream", b"\x00\x01")
    sent = await posted(open_service, service, body("application/xml", members(a={})), {"body": "<a>ü</a>"})
    assert (sent["headers"]["content-type"], sent["body"].decode()) == ("application/xml", "<a>ü</a>")


async def test_members_that_only_responses_have_are_no_arguments(open_service, service):
    schema = members(id={"type": "integer", "readOnly": True}, name={"type": "string"}) | {"required": ["id", "name"]}
    sent = await posted(open_service, service, body("application/json", schema), {"name": "x"})
    assert json.loads(sent["body"]) == {"name": "x"}
