"""The import of documents: nothing is lost silently, and what is made of each operation."""

import json

import pytest
import yaml
from openapi_documents import document, operation

from agenttool.adapters.openapi.document import DocumentError
from agenttool.adapters.openapi.importer import describe_changes, import_document
from agenttool.adapters.openapi.settings import read_service


def imported(found, external=None, **settings):
    data = found if isinstance(found, bytes) else json.dumps(found).encode()
    members = {"document": "probe.json", "server": "https://api.example", **settings}
    service = read_service("probe", {key: value for key, value in members.items() if value is not None})
    return import_document(service, data, "probe.json", external=external)


def schema_of(found, **settings):
    [tool] = imported(found, **settings).tools
    return tool.input.schema


def test_one_bad_operation_is_reported_with_its_pointer_and_the_others_load():
    paths = {
        "/good": {"get": operation()},
        "/bad/{x}": {"get": operation({"$ref": "#/components/parameters/none"}), "post": "not an operation"},
        "/gone": {"$ref": "#/components/pathItems/none"},
    }
    found = imported(document(paths))
    assert [each.operation.key for each in found.tools] == ["GET /good"]
    assert {each.pointer: (each.reason, each.effect) for each in found.skipped} == {
        "/paths/~1bad~1{x}/get/parameters/0": (
            "the reference '#/components/parameters/none' leads to nothing; correct it",
            "operation skipped",
        ),
        "/paths/~1bad~1{x}/post": ("an object is expected, got str; correct it", "operation skipped"),
        "/paths/~1gone": (
            "the reference '#/components/pathItems/none' leads to nothing; correct it",
            "path skipped",
        ),
    }


def test_bytes_that_are_not_utf_8_are_replaced_and_every_operation_loads():
    text = json.dumps(document({"/a": {"get": operation(summary="BAD"), "post": operation()}}))
    found = imported(text.encode().replace(b"BAD", b"caf\xe9"))
    assert [each.description for each in found.tools] == ["caf\N{REPLACEMENT CHARACTER}.", "POST /a"]


def test_an_invalid_part_that_no_request_needs_is_reported_and_its_operation_loads():
    paths = {
        "/list": {"get": {"responses": []}},
        "/number": {"get": {"parameters": {}, "responses": {"200": {}, "404": 5, "x-note": 5}}},
        "/none": {"get": {"responses": None}, "post": {}},
    }
    found = imported(document(paths))
    assert [each.operation.path for each in found.tools] == ["/list", "/number", "/none", "/none"]
    assert [[*each.operation.responses] for each in found.tools] == [[], ["200"], [], []]
    assert {each.pointer: each.reason.partition(",")[0] for each in found.skipped} == {
        "/paths/~1list/get/responses": "it must be an object",
        "/paths/~1number/get/parameters": "it must be a list",
        "/paths/~1number/get/responses/404": "it must be an object",
    }


@pytest.mark.parametrize("write", [json.dumps, yaml.safe_dump], ids=["json", "yaml"])
def test_each_part_of_another_type_is_reported_and_the_rest_of_its_operation_loads(write):
    paths = {
        "/a": {
            "summary": 5,
            "parameters": [
                {"name": "q", "in": "query", "style": "matrix", "explode": "no", "schema": {"type": "text"}}
            ],
            "get": {
                "tags": ["good", 5],
                "security": {"key": []},
                "servers": [{"url": 5}, "https://other.example"],
                "responses": {"200": {"$ref": "#/components/responses/none"}, "201": {"content": []}},
            },
            "put": {
                "requestBody": {"content": {"application/json": {"schema": {"$ref": "#/components/schemas/Body"}}}}
            },
            "delete": {"security": [{"lost": []}], "deprecated": "yes", "requestBody": {"required": True}},
            "GET": {},
        }
    }
    body = {
        "type": "object",
        "required": True,
        "properties": {
            "a/b": {"minimum": "x", "maxLength": -1, "multipleOf": 0, "enum": "a", "nullable": "yes"},
            "c": {"allOf": {}, "pattern": "(?<=a)b", "items": 5},
            "d": {"minLength": 2.0, "exclusiveMinimum": True, "minimum": 1, "description": None, "format": "other"},
        },
    }
    components = {"schemas": {"Body": body}, "securitySchemes": {"key": {"type": "apiKey", "in": "body"}}}
    found = imported(write(document(paths, components=components, security="key", tags={})).encode())
    assert [each.operation.key for each in found.tools] == ["GET /a", "PUT /a", "DELETE /a"]
    assert [each.operation.tags for each in found.tools] == [("good",), (), ()]
    assert {each.effect for each in (*found.skipped, *found.findings)} == {"part ignored"}
    assert sorted(each.pointer for each in found.skipped) == [
        "/components/securitySchemes/key",
        "/paths/~1a/GET",
        "/paths/~1a/delete/deprecated",
        "/paths/~1a/delete/requestBody",
        "/paths/~1a/delete/security",
        "/paths/~1a/get/responses/200",
        "/paths/~1a/get/responses/201/content",
        "/paths/~1a/get/security",
        "/paths/~1a/get/servers/0/url",
        "/paths/~1a/get/servers/1",
        "/paths/~1a/get/tags/1",
        "/paths/~1a/parameters/0/explode",
        "/paths/~1a/parameters/0/style",
        "/paths/~1a/summary",
        "/security",
        "/tags",
    ]
    schema = "/components/schemas/Body"
    assert {each.pointer: each.reason for each in found.findings} == {
        "/paths/~1a/parameters/0/schema/type": (
            "it must be one of array, boolean, integer, null, number, object, string, or a list of them, got 'text'"
        ),
        f"{schema}/required": "it must be a list, got bool",
        f"{schema}/properties/a~1b/minimum": "it must be a number, got 'x'",
        f"{schema}/properties/a~1b/maxLength": "it must be a whole number from 0 on, got -1",
        f"{schema}/properties/a~1b/multipleOf": "it must be a number above 0, got 0",
        f"{schema}/properties/a~1b/enum": "it must be a list with a value, got 'a'",
        f"{schema}/properties/a~1b/nullable": "it must be true or false, got 'yes'",
        f"{schema}/properties/c/allOf": "it must be a list, got dict",
        f"{schema}/properties/c/pattern": (
            "it must be a regular expression that all validators understand, got '(?<=a)b'"
        ),
        f"{schema}/properties/c/items": "a schema is an object, got int",
    }


def test_a_placeholder_that_no_parameter_declares_becomes_an_argument():
    assert schema_of(document({"/a/{x}/{y}": {"get": operation()}}))["required"] == ["x", "y"]


def test_names_are_unique_short_and_the_same_at_each_import():
    long = "a_very_long_operation_id_" * 5
    paths = {
        "/a": {"get": operation(operationId="get/thing"), "post": operation()},
        "/b": {"get": operation(operationId="get_thing"), "put": operation(operationId=long)},
        "/c/{id}": {"delete": operation(operationId="Get-Thing!"), "put": operation(operationId=long)},
    }
    names = {each.operation.key: each.name for each in imported(document(paths)).tools}
    assert names["GET /a"] == "get_thing"
    assert names["POST /a"] == "post_a"
    assert len({each.lower() for each in names.values()}) == 6
    assert all(len(each) <= 44 for each in names.values())
    reordered = document({path: paths[path] for path in ("/a", "/c/{id}", "/b")})
    again = {each.operation.key: each.name for each in imported(reordered, exclude=["GET /a"]).tools}
    assert again == {key: name for key, name in names.items() if key != "GET /a"}
    foreign = {f"/{each}": {"get": operation(operationId=f"get{each}")} for each in ("取得", "削除")}
    both, one = imported(document(foreign)).tools, imported(document({"/削除": foreign["/削除"]})).tools
    assert len({each.name for each in both}) == 2
    assert both[1].name == one[0].name


def test_operations_are_chosen_by_name_id_method_path_and_tag():
    paths = {
        "/users": {"get": operation(operationId="users/list", tags=["People"]), "post": operation(operationId="make")},
        "/admin": {"delete": operation(operationId="wipe", tags=["Danger"])},
    }

    def keys(**settings):
        return [each.operation.key for each in imported(document(paths), **settings).tools]

    assert keys(include=["users_*"]) == ["GET /users"]
    assert keys(include=["users/*", "POST *"]) == ["GET /users", "POST /users"]
    assert keys(exclude=["tag:danger", "* /users"]) == []
    found = imported(document(paths), include=["tag:people"], tools={"users/*": {"name": "people", "read_only": True}})
    assert [(each.name, each.facts.read_only) for each in found.tools] == [("people", True)]
    assert found.excluded == 2


def test_a_recursive_schema_stays_a_reference_and_schemas_of_3_0_become_those_of_today():
    node = {
        "type": "object",
        "properties": {
            "next": {"$ref": "#/components/schemas/Node"},
            "name": {"type": "string", "nullable": True, "enum": ["a", "b"], "example": "a", "x-order": 1},
            "size": {"type": "integer", "minimum": 0, "exclusiveMinimum": True, "format": "int64"},
            "other": {"allOf": [{"$ref": "#/components/schemas/Node"}], "nullable": True},
            "kind": {"oneOf": [{"type": "string"}, {"type": "integer"}], "discriminator": {"propertyName": "x"}},
            "broken": {"type": "date", "required": True, "minLength": "3", "pattern": "([", "items": 3},
        },
        "required": ["name", "name"],
    }
    body = {"required": True, "content": {"application/json": {"schema": {"$ref": "#/components/schemas/Node"}}}}
    found = document({"/a": {"post": operation(body=body)}}, components={"schemas": {"Node": node}})
    schema = schema_of(found)
    assert schema["properties"] == {
        "next": {"$ref": "#/$defs/Node"},
        "name": {"type": ["string", "null"], "enum": ["a", "b", None]},
        "size": {"type": "integer", "exclusiveMinimum": 0},
        "other": {"anyOf": [{"allOf": [{"$ref": "#/$defs/Node"}]}, {"type": "null"}]},
        "kind": {"anyOf": [{"type": "string"}, {"type": "integer"}]},
        "broken": {"items": {}},
    }
    assert schema["required"] == ["name"]
    assert schema["$defs"]["Node"]["properties"] == schema["properties"]


def test_schemas_that_are_composed_of_each_other_are_each_read_once():
    names = [f"S{number}" for number in range(40)]
    branches = [{"$ref": f"#/components/schemas/{name}"} for name in names]  # 40 ** 5 paths lead through five of them
    file = {"type": "string", "format": "binary"}
    schemas = {name: {"allOf": branches, "anyOf": branches, "properties": {name: file}} for name in names}
    body = {"content": {"multipart/form-data": {"schema": branches[0]}}}
    found = document({"/a": {"post": operation(body=body)}}, components={"schemas": schemas})
    [tool] = imported(found).tools
    assert [*tool.operation.body.files] == names


def test_members_of_a_form_that_is_composed_in_many_levels_are_arguments():
    def level(number):
        below = {"allOf": [{"$ref": f"#/components/schemas/L{number + 1}"}]} if number < 8 else {}
        return {"type": "object", "properties": {f"m{number}": {"type": "string"}}, **below}

    schemas = {f"L{number}": level(number) for number in range(9)}
    media = {"multipart/form-data": {"schema": {"$ref": "#/components/schemas/L0"}}}
    paths = {"/a": {"post": operation(body={"required": True, "content": media})}}
    [tool] = imported(document(paths, components={"schemas": schemas})).tools
    assert sorted(tool.input.schema["properties"]) == [f"m{number}" for number in range(9)]


def test_words_beside_a_reference_count_since_openapi_3_1():
    name, order = {"type": "string"}, {"type": "object", "properties": {"k": {"type": "string"}}}
    body = {"$ref": "#/components/schemas/Order", "required": ["k"], "properties": {"extra": {"type": "integer"}}}
    query = {"name": "q", "in": "query", "schema": {"$ref": "#/components/schemas/Name", "maxLength": 3}}
    content = {"required": True, "content": {"application/json": {"schema": body}}}
    paths = {"/x": {"post": operation(query, body=content)}}
    found = document(paths, components={"schemas": {"Name": name, "Order": order}})
    new, old = (schema_of({**found, "openapi": version}) for version in ("3.1.0", "3.0.3"))
    assert new["properties"]["q"] == {"$ref": "#/$defs/Name", "maxLength": 3}
    assert (new["properties"]["extra"], new["required"]) == ({"type": "integer"}, ["k"])
    assert (set(old["properties"]), old.get("required")) == ({"q", "k"}, None)
    assert old["properties"]["q"] == {"$ref": "#/$defs/Name"}


def test_a_large_schema_is_cut_at_its_far_end_and_still_accepts_all_that_is_valid():
    levels = {
        f"L{n}": {
            "type": "object",
            "description": f"Level {n}.",
            "properties": {
                "next": {"$ref": f"#/components/schemas/L{n + 1}"},
                **{f"field{i}": {"type": "string", "description": "x" * 100} for i in range(20)},
            },
        }
        for n in range(60)
    }
    levels["L60"] = {"type": "string"}
    body = {"required": True, "content": {"application/json": {"schema": {"$ref": "#/components/schemas/L0"}}}}
    found = document({"/a": {"post": operation(body=body)}}, components={"schemas": levels})
    schema = schema_of(found)
    assert len(json.dumps(schema)) < 20_000
    last = [*schema["$defs"].values()][-1]
    assert last["type"] == "object"
    assert "properties" not in last


def test_a_list_of_values_that_would_fill_the_schema_becomes_a_note():
    long, short = [f"value{number}" for number in range(2000)], [f"v{number}" for number in range(200)]
    parameters = [
        {"name": name, "in": "query", "schema": {"type": "string", "description": "A.", "enum": values}}
        for name, values in (("long", long), ("short", short))
    ]
    assert schema_of(document({"/a": {"get": operation(*parameters)}}))["properties"] == {
        "long": {
            "type": "string",
            "description": "A. One of 2,000 values, such as value0, value1, value2, value3, value4.",
        },
        "short": {"type": "string", "description": "A.", "enum": short},
    }


def test_constant_and_credential_parameters_are_not_asked_for():
    given = [
        {"name": "version", "in": "query", "required": True, "schema": {"type": "string", "enum": ["v1"]}},
        {"name": "X-Api-Key", "in": "header", "required": True, "schema": {"type": "string"}},
        {"name": "tenant", "in": "query", "required": True, "schema": {"type": "string"}},
        {"name": "q", "in": "query", "schema": {"type": "string"}},
    ]
    schemes = {"key": {"type": "apiKey", "in": "header", "name": "x-api-key"}}
    found = document({"/a": {"get": operation(*given)}}, components={"securitySchemes": schemes})
    assert [*schema_of(found, query={"tenant": "t1"})["properties"]] == ["q"]


def test_servers_variables_and_relative_urls_are_resolved():
    servers = [
        {"url": "https://{region}.example/{v}", "variables": {"region": {"default": "eu"}, "v": {"default": "v1"}}}
    ]
    found = document(
        {"/a": {"get": operation(), "servers": [{"url": "https://other.example"}]}, "/b": {"get": operation()}}
    )
    found["servers"] = servers
    tools = imported(found, server=None, variables={"v": "v2"}).tools
    assert [each.base_url for each in tools] == ["https://other.example", "https://eu.example/v2"]
    without_scheme = imported(
        document({"/b": {"get": operation()}}, servers=[{"url": "//api.example/v1"}]), server=None
    )
    assert [each.base_url for each in without_scheme.tools] == ["https://api.example/v1"]
    relative = imported(document({"/b": {"get": operation()}}, servers=[{"url": "/api"}]), server=None)
    assert (relative.tools, relative.skipped[0].pointer) == ([], "/paths/~1b/get")
    assert "write server" in relative.skipped[0].reason
    user = imported(
        document({"/b": {"get": operation()}}, servers=[{"url": "https://ada:pass@a.example"}]), server=None
    )
    assert (user.tools, "has a user" in user.skipped[0].reason, "pass" in str(user.skipped)) == ([], True, False)


def test_swagger_2_is_converted():
    found = {
        "swagger": "2.0",
        "host": "api.example",
        "basePath": "/v1",
        "schemes": ["http", "https"],
        "consumes": ["application/json"],
        "parameters": {"page": {"name": "page", "in": "query", "type": "integer"}},
        "securityDefinitions": {"o": {"type": "oauth2", "flow": "application", "tokenUrl": "https://t.example"}},
        "definitions": {"Pet": {"type": "object", "properties": {"name": {"type": "string", "x-nullable": True}}}},
        "paths": {
            "/pets/{ids}": {
                "parameters": [{"name": "ids", "in": "path", "required": True, "type": "array", "items": {"type": "integer"}}],
                "get": {"parameters": [{"$ref": "#/parameters/page"}, {"name": "t", "in": "query", "type": "array", "collectionFormat": "multi"}]},
                "put": {"parameters": [{"name": "pet", "in": "body", "required": True, "schema": {"$ref": "#/definitions/Pet"}}]},
                "post": {"parameters": [{"name": "f", "in": "formData", "type": "file"}, {"name": "n", "in": "formData", "type": "string"}]},
                "delete": {"parameters": [{"$ref": "#/parameters/none"}]},
            }
        },
    }  # fmt: skip
    result = imported(found, server=None)
    by_method = {each.operation.method: each for each in result.tools}
    assert by_method["GET"].base_url == "https://api.example/v1"
    assert [(each.name, each.style, each.explode) for each in by_method["GET"].operation.parameters] == [
        ("ids", "simple", False),
        ("page", "form", True),
        ("t", "form", True),
    ]
    assert by_method["PUT"].input.schema["properties"]["name"] == {"type": ["string", "null"]}
    assert by_method["POST"].operation.body.content_type == "multipart/form-data"
    assert [each.pointer for each in result.skipped] == ["/paths/~1pets~1{ids}/delete"]


def test_parts_of_swagger_2_of_another_type_are_reported():
    paths = {
        "/a": {"get": {"parameters": {"name": "q"}, "responses": [], "produces": "application/json"}},
        "/b": {"parameters": 5, "post": {"responses": {"200": {"$ref": "#/responses/none"}}}, "GET": {}},
    }
    found = imported({"swagger": "2.0", "schemes": "https", "basePath": 5, "definitions": [], "paths": paths})
    assert [each.operation.key for each in found.tools] == ["GET /a", "POST /b"]
    assert sorted(each.pointer for each in found.skipped) == [
        "/basePath",
        "/definitions",
        "/paths/~1a/get/parameters",
        "/paths/~1a/get/produces",
        "/paths/~1a/get/responses",
        "/paths/~1b/GET",
        "/paths/~1b/parameters",
        "/paths/~1b/post/responses/200",
        "/schemes",
    ]
    with pytest.raises(DocumentError, match="has no paths"):
        imported({"swagger": "2.0", "paths": []})


def test_swagger_2_may_take_parameters_from_another_document():
    parts = {"limit": {"name": "limit", "in": "query", "type": "integer"}}
    found = {"swagger": "2.0", "paths": {"/a": {"get": operation({"$ref": "parts.json#/limit"})}}}
    [tool] = imported(found, external={"parts.json": parts}).tools
    assert tool.input.schema["properties"] == {"limit": {"type": "integer"}}


def test_openapi_3_2_methods_are_imported():
    paths = {"/a": {"query": operation(), "additionalOperations": {"COPY": operation(operationId="copy")}}}
    assert [each.operation.key for each in imported({**document(paths), "openapi": "3.2.0"}).tools] == [
        "QUERY /a",
        "COPY /a",
    ]


def test_a_second_operation_with_the_same_method_and_path_is_skipped():
    others = {"GET": operation(operationId="b"), "copy": operation(), "COPY": operation()}
    found = imported({**document({"/a": {"get": operation(), "additionalOperations": others}}), "openapi": "3.2.0"})
    assert [each.operation.key for each in found.tools] == ["GET /a", "COPY /a"]
    assert [(each.pointer.rpartition("/")[2], each.effect) for each in found.skipped] == [
        ("GET", "operation skipped"),
        ("COPY", "operation skipped"),
    ]


def test_a_document_of_another_kind_is_refused():
    for found, reason in (
        ({"asyncapi": "2.0"}, "neither the member openapi nor swagger"),
        ({"openapi": "3.0.0"}, "no paths"),
    ):
        with pytest.raises(DocumentError, match=reason):
            imported(found)


def test_the_difference_of_two_imports_names_operations():
    before = {"GET /a": "1", "GET /b": "1", "GET /c": "1"}
    found = describe_changes(before, {"GET /a": "1", "GET /b": "2", "GET /d": "1"})
    assert found == "1 added (GET /d); 1 removed (GET /c); 1 changed (GET /b)"
