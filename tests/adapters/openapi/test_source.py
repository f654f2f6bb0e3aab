"""OpenAPI services as sources: files, URLs, refreshes, trust, and what records preserve."""

import asyncio
import json
import logging

import pytest
from openapi_documents import document, operation

from agenttool import Runtime
from agenttool.adapters.openapi.settings import read_service
from agenttool.errors import ConfigError
from agenttool.records import ToolDeclaration, ToolInterface

PETS = {
    "/pets/{id}": {
        "get": {
            "operationId": "getPet",
            "summary": "Get a pet",
            "description": "Get a pet. It is returned as it is.",
            "tags": ["pets"],
            "security": [{"key": []}],
            "parameters": [{"name": "id", "in": "path", "required": True, "schema": {"type": "integer"}}],
            "responses": {"200": {"content": {"application/json": {"schema": {"$ref": "#/components/schemas/Pet"}}}}},
        },
        "put": {
            "operationId": "putPet",
            "requestBody": {"required": True, "content": {"application/json": {"schema": {"$ref": "#/components/schemas/Pet"}}}},
            "responses": {"204": {"description": "stored"}},
        },
        "delete": {"operationId": "deletePet", "responses": {"204": {"description": "gone"}}},
    }
}  # fmt: skip
COMPONENTS = {
    "schemas": {"Pet": {"type": "object", "properties": {"name": {"type": "string"}}}},
    "securitySchemes": {"key": {"type": "apiKey", "in": "header", "name": "X-Key"}},
}


def pets():
    return document(PETS, components=COMPONENTS)


async def records(rt, kind):
    found = [each async for each in rt.journal.export() if isinstance(each, kind)]
    return {each.tool_id.removeprefix("tool_probe."): each for each in found if "probe." in each.tool_id}


@pytest.mark.requirement("AT-INTEROP-OPENAPI-01", "AT-INTEROP-OPENAPI-02")
async def test_a_declaration_preserves_the_operation(open_service, service):
    async with open_service(pets()) as rt:
        declared = await records(rt, ToolDeclaration)
    pet, put = declared["getPet"], declared["putPet"]
    [mapping] = pet.external_mappings
    assert (mapping.operation_id, mapping.method, mapping.path, mapping.server_url, mapping.security_scheme_refs) == (
        "getPet",
        "GET",
        "/pets/{id}",
        service.url,
        ("key",),
    )
    assert pet.tool_kind.value == "openapi_operation"
    assert pet.description == "Get a pet. It is returned as it is."
    assert pet.output_contract.result_shape == {"200": {"application/json": {"$ref": "#/components/schemas/Pet"}}}
    assert pet.annotations["openapi"]["parameters"] == PETS["/pets/{id}"]["get"]["parameters"]
    assert put.annotations["openapi"]["request_body"] == {
        "content_type": "application/json",
        "schema": {"$ref": "#/components/schemas/Pet"},
    }


@pytest.mark.requirement("AT-INTEROP-OPENAPI-03")
async def test_a_call_sends_the_request_that_a_direct_client_sends(open_service, service):
    service.answers["/pets/7"] = {"name": "Rex"}
    async with open_service(pets()) as rt:
        result = await rt.call("probe.putPet", {"id": "7", "name": "Rex"})
    sent = service.last
    assert (sent["method"], sent["path"], json.loads(sent["body"])) == ("PUT", "/pets/7", {"name": "Rex"})
    extra = {"host", "connection", "user-agent", "accept-encoding", "accept", "content-type", "content-length"}
    assert set(sent["headers"]) == extra
    assert result.value == {"name": "Rex"}


async def test_methods_are_hints_that_only_trust_or_the_owner_turns_into_facts(open_service):
    async with open_service(pets()) as rt:
        untrusted = await records(rt, ToolInterface)
    async with open_service(pets(), trust=True) as rt:
        trusted = await records(rt, ToolInterface)
    async with open_service(pets(), tools={"putPet": {"read_only": True}, "DELETE *": {"destructive": False}}) as rt:
        stated = await records(rt, ToolInterface)

    def facts(found):
        return {name: (each.is_read_only, each.is_destructive) for name, each in found.items()}

    assert facts(untrusted) == {"getPet": (False, False), "putPet": (False, False), "deletePet": (False, True)}
    assert "is_read_only" in untrusted["getPet"].inferred_facts
    assert facts(trusted) == {"getPet": (True, False), "putPet": (False, False), "deletePet": (False, True)}
    assert facts(stated) == {"getPet": (False, False), "putPet": (True, False), "deletePet": (False, False)}
    assert "is_destructive" not in stated["deletePet"].inferred_facts


async def test_a_document_at_a_url_is_cached_and_a_change_is_shown(service, tmp_path, caplog):
    def open_url(**settings):
        members = {"document": f"{service.url}/api.json", **settings}
        source = read_service("probe", members)
        return Runtime.open(sources=[source], store=f"sqlite:{tmp_path}/s.db", approve=lambda _: True)

    first = document({"/a": {"get": operation(operationId="a")}, "/b": {"get": operation(operationId="b")}})
    second = document(
        {"/a": {"get": operation(operationId="a", summary="new")}, "/c": {"get": operation(operationId="c")}}
    )
    service.answers["/api.json"] = (200, {"ETag": '"1"'}, first)
    async with open_url() as rt:
        assert (await rt.call("probe.b", {})).ok
    service.answers["/api.json"] = (304, {}, b"")
    async with open_url() as rt:
        assert (await rt.call("probe.b", {})).ok
        assert not rt.sources.get("probe").difference
    assert service.requests[2]["headers"]["if-none-match"] == '"1"'
    service.answers["/api.json"] = (500, {}, b"")
    async with open_url() as rt:
        assert (await rt.call("probe.b", {})).ok
        [status] = await rt.sources.status()
    assert status.is_ready
    assert "answered 500" in status.fault
    assert "the last one is used" in status.fault
    service.answers["/api.json"] = second
    with caplog.at_level(logging.WARNING):
        async with open_url() as rt:
            assert (await rt.call("probe.c", {})).ok
    assert "1 added (GET /c); 1 removed (GET /b); 1 changed (GET /a)" in caplog.text


async def test_a_refresh_declares_new_operations_and_withdraws_old_ones(open_service, tmp_path, service):
    first = document({"/a": {"get": operation(operationId="a")}, "/b": {"get": operation(operationId="b")}})
    async with open_service(first) as rt:
        source = rt.sources.get("probe")
        (tmp_path / "probe.json").write_text(json.dumps(document({"/c": {"get": operation(operationId="c")}})))
        assert await source.refresh()
        gone, new = await rt.call("probe.b", {}), await rt.call("probe.c", {})
        assert [*source.difference.added] == ["GET /c"]
    assert not gone.ok
    assert new.ok, new.error


async def test_a_document_whose_server_changed_gets_no_requests_until_the_owner_agrees(service, tmp_path):
    place = tmp_path / "api.json"

    async def opened(server):
        place.write_text(json.dumps(document({"/a": {"get": operation(operationId="a")}}, servers=[{"url": server}])))
        source = read_service("probe", {"document": str(place), "allow": ["127.0.0.0/8", "localhost", "::1/128"]})
        async with Runtime.open(sources=[source], store=f"sqlite:{tmp_path}/s.db", approve=lambda _: True) as rt:
            return (await rt.call("probe.a", {})).ok, (await rt.sources.status())[0].fault

    assert await opened(service.url) == (True, None)
    ok, fault = await opened(service.url.replace("127.0.0.1", "localhost"))
    assert not ok
    assert "its server is now" in fault


async def test_a_file_that_is_missing_costs_only_its_tools(tmp_path):
    source = read_service("probe", {"document": str(tmp_path / "none.json")})
    async with Runtime.open(sources=[source], store="memory:") as rt:
        [status] = await rt.sources.status()
    assert not status.is_ready
    assert "cannot be read: No such file" in status.fault


async def test_a_document_that_leads_to_an_internal_address_is_refused(service):
    service.answers["/api.json"] = (302, {"Location": "http://169.254.169.254/latest"}, {})
    source = read_service("probe", {"document": f"{service.url}/api.json"})
    async with Runtime.open(sources=[source], store="memory:") as rt:
        [status] = await rt.sources.status()
    assert not status.is_ready
    assert "a URL must lead to a public address" in status.fault
    assert "(the setting allow of the source)" in status.fault


async def test_other_documents_are_read_only_where_the_settings_allow_it(service, tmp_path, open_service):
    (tmp_path / "parts").mkdir()
    parts = {"P": {"name": "q", "in": "query", "schema": {"$ref": "#/S"}}, "S": {"type": "string", "maxLength": 3}}
    (tmp_path / "parts" / "p.json").write_text(json.dumps(parts))
    inside = {"$ref": "parts/p.json#/P"}
    outside = {"$ref": "http://169.254.169.254/x.json#/P"}
    found = document(
        {"/a": {"get": operation(inside, operationId="a")}, "/b": {"get": operation(outside, operationId="b")}}
    )
    async with open_service(found, references=[f"{tmp_path}/parts/"]) as rt:
        long = await rt.call("probe.a", {"q": "long text"})
        short = await rt.call("probe.a", {"q": "abc"})
        [status] = await rt.sources.status()
    assert long.error.error_class.value == "schema_validation_failed"
    assert short.ok
    assert service.last["path"] == "/a?q=abc"
    assert (
        "1 part of its document cannot be used: /paths/~1b/get/parameters/0: the document may not refer to"
        in status.fault
    )


async def test_settings_say_what_is_wrong():
    for members, reason in (
        ({}, "document"),
        ({"document": "x", "sever": "y"}, "did you mean 'server'"),
        ({"document": "x", "server": "api.example"}, "must begin with http"),
        ({"document": "x", "security": {"a": {"client": "b"}}}, "security must be"),
    ):
        with pytest.raises(ConfigError, match=reason):
            read_service("probe", members)


async def test_a_preview_shows_the_request_with_secrets_masked(open_service, service):
    settings = {"security": {"key": "${credentials.one}"}, "headers": {"X-Token": "Bearer ${credentials.one}"}}
    async with open_service(pets(), credentials={"one": "secret-one-1"}, **settings) as rt:
        request = rt.sources.get("probe").preview("probe.getPet", {"id": 7})
        with pytest.raises(ConfigError, match="did you mean 'getPet'"):
            rt.sources.get("probe").preview("getPets", {})
    assert (request.method, request.url) == ("GET", f"{service.url}/pets/7")
    assert (request.headers["X-Key"], request.headers["X-Token"]) == ("[redacted]", "Bearer [redacted]")
    assert not service.requests


async def test_many_calls_at_once_share_the_service(open_service, service):
    async with open_service(pets(), trust=True) as rt:
        results = await asyncio.gather(*(rt.call("probe.getPet", {"id": number}) for number in range(40)))
    assert all(each.ok for each in results)
    assert {each["path"] for each in service.requests} == {f"/pets/{number}" for number in range(40)}


async def test_settings_that_concern_nothing_are_reported(open_service):
    settings = {"include": ["getPet", "getPets"], "exclude": ["tag:none"], "tools": {"putPt": {"read_only": True}}}
    found = document(PETS, servers=[{"url": "https://pets.example"}])
    async with open_service(found, security={"kee": "secret-1"}, **settings) as rt:
        [status] = await rt.sources.status()
    for pattern in ("'getPets' of include", "'tag:none' of exclude", "'putPt' of tools"):
        assert f"the pattern {pattern} matches no operation; correct it" in status.fault


async def test_two_operations_with_one_new_name_are_not_mixed_up(open_service):
    found = document({"/a": {"get": operation(operationId="a")}, "/b": {"get": operation(operationId="b")}})
    async with open_service(found, tools={"a": {"name": "b"}}) as rt:
        source = rt.sources.get("probe")
        assert [each.operation.key for each in source.imported.tools] == ["GET /a"]
        assert "/paths/~1b/get: GET /a has the name 'b', too" in source.health()[0].fault
    with pytest.raises(ConfigError, match="the name of 'a' in tools of source 'probe'"):
        read_service("probe", {"document": "a.json", "tools": {"a": {"name": "two words"}}})


async def test_a_target_of_an_overlay_that_selects_nothing_is_reported(open_service, tmp_path):
    actions = [{"target": "$.paths['/none']", "remove": True}]
    (tmp_path / "o.json").write_text(json.dumps({"overlay": "1.0.0", "info": {}, "actions": actions}))
    async with open_service(pets(), overlays=[str(tmp_path / "o.json")]) as rt:
        [status] = await rt.sources.status()
    assert "the target \"$.paths['/none']\" of an overlay (/actions/0) selects nothing" in status.fault


async def test_an_operation_with_too_many_parameters_is_reported_and_costs_only_itself(open_service):
    many = [{"name": f"p{number}", "in": "query", "schema": {"type": "string"}} for number in range(20_000)]
    found = document({"/a": {"get": operation(*many, operationId="a")}, "/b": {"get": operation(operationId="b")}})
    async with open_service(found) as rt:
        [status] = await rt.sources.status()
        assert (await rt.call("probe.b", {})).ok
    assert "/paths/~1a/get: it has 20000 parameters, more than 1000" in status.fault


async def test_a_preview_refuses_arguments_that_a_call_would_refuse(open_service):
    async with open_service(pets()) as rt:
        source = rt.sources.get("probe")
        for arguments, reason in (
            ({}, "at /id: expected a member 'id'"),
            ({"id": "x"}, "at /id: expected integer"),
            ({"id": 1, "no": 1}, "no"),
        ):
            with pytest.raises(ValueError, match=reason):
                source.preview("getPet", arguments)


async def test_a_denial_names_no_decorator_for_an_operation(tmp_path, service):
    (tmp_path / "api.json").write_text(json.dumps(pets()))
    source = read_service("probe", {"document": str(tmp_path / "api.json"), "server": service.url})
    async with Runtime.open(sources=[source], approve="deny") as rt:
        error = (await rt.call("probe.deletePet", {"id": "1"})).error
    assert "@tool" not in error.message
    assert '"allow"' in error.message


async def test_no_output_schema_is_declared_because_services_violate_theirs(open_service):
    async with open_service(pets()) as rt:
        interfaces, declarations = await records(rt, ToolInterface), await records(rt, ToolDeclaration)
    assert {each.output_schema for each in interfaces.values()} == {None}
    assert {each.output_contract.structured_schema for each in declarations.values()} == {None}


async def test_a_document_that_takes_long_is_read_while_the_runtime_runs(open_service, monkeypatch):
    monkeypatch.setattr("agenttool.adapters.openapi.source.FIRST_READ_S", 0)
    async with open_service(pets()) as rt:
        [status] = await rt.sources.status()
        await rt.sources.get("probe").check()
        result = await rt.call("probe.deletePet", {"id": "1"})
    assert "is still being read after 0 s; its tools follow" in status.fault
    assert result.ok


@pytest.mark.parametrize("text", [None, "Pet: [unclosed"])
async def test_a_reference_to_an_unreadable_file_skips_only_the_operations_that_need_it(open_service, tmp_path, text):
    (tmp_path / "parts").mkdir()
    (tmp_path / "parts" / "good.yaml").write_text('Pet: {type: object, properties: {next: {$ref: "bad.yaml#/Pet"}}}')
    if text is not None:
        (tmp_path / "parts" / "bad.yaml").write_text(text)

    def posting(reference):
        return {"content": {"application/json": {"schema": {"$ref": reference}}}}

    paths = {
        "/a": {"post": operation(operationId="direct", body=posting("parts/bad.yaml#/Pet"))},
        "/b": {"post": operation(operationId="nested", body=posting("parts/good.yaml#/Pet"))},
        "/c": {"post": operation(operationId="again", body=posting("parts/good.yaml#/Pet"))},
        "/d": {"get": operation(operationId="free")},
    }
    async with open_service(document(paths), references=[f"{tmp_path}/parts/"]) as rt:
        source = rt.sources.get("probe")
        assert [each.name for each in source.imported.tools] == ["free"]
        assert (await rt.call("probe.free", {})).ok
        [status] = await rt.sources.status()
        assert "parts/bad.yaml' that it refers to cannot be read: " in status.fault
        (tmp_path / "parts" / "bad.yaml").write_text("Pet: {type: object}")
        assert await source.refresh()
        assert [each.name for each in source.imported.tools] == ["direct", "nested", "again", "free"]
