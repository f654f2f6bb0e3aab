"""Calls: attempts, waiting, pages, polling, redirects, and what becomes of each response."""

import json
import socket

import pytest
from openapi_documents import document, operation

from agenttool.adapters.openapi import execute


@pytest.fixture(autouse=True)
def _no_delays(monkeypatch):
    monkeypatch.setattr(execute, "FIRST_DELAY_S", 0.001)


def listing(*names, **members):
    given = [{"name": name, "in": "query", "schema": {}} for name in names]
    return document({"/list": {"get": operation(*given, operationId="list", **members)}})


def both():
    return document({"/x": {"get": operation(operationId="read"), "post": operation(operationId="write")}})


async def test_a_request_that_may_be_repeated_is_and_another_is_not(open_service, service):
    service.answers["/x"] = [(503, {}, {}), (503, {}, {}), (200, {}, {"ok": 1})]
    async with open_service(both()) as rt:
        assert (await rt.call("probe.read", {})).value == {"ok": 1}
        service.answers["/x"] = [(503, {}, {"title": "busy"}), (200, {}, {"ok": 1})]
        result = await rt.call("probe.write", {})
    assert result.error.error_class.value == "dependency_unavailable"
    assert "503: busy" in result.error.message
    assert [each["method"] for each in service.requests] == ["GET"] * 3 + ["POST"]


async def test_with_an_idempotency_header_every_request_is_repeated_under_one_key(open_service, service):
    service.answers["/x"] = [(500, {}, {}), (200, {}, {"ok": 1})]
    async with open_service(both(), idempotency_header="Idempotency-Key") as rt:
        result = await rt.call("probe.write", {})
    assert result.ok
    assert {each["headers"]["idempotency-key"] for each in service.requests} == {str(result.invocation_id)}
    assert len(service.requests) == 2


async def test_a_request_has_one_idempotency_header_in_any_case(open_service, service):
    names = []
    service.answers["/x"] = lambda request: names.extend(request["names"]) or {"ok": 1}
    settings = {"idempotency_header": "Idempotency-Key", "headers": {"IDEMPOTENCY-KEY": "fixed"}}
    async with open_service(both(), **settings) as rt:
        result = await rt.call("probe.write", {})
    assert [each.lower() for each in names].count("idempotency-key") == 1
    assert service.last["headers"]["idempotency-key"] == str(result.invocation_id)


async def test_a_service_that_asks_to_wait_too_long_is_left_alone(open_service, service):
    service.answers["/x"] = (429, {"Retry-After": "1000"}, {"message": "slow down"})
    async with open_service(both(), timeout_s=5) as rt:
        results = [await rt.call("probe.read", {}) for _ in range(20)]
    assert len(service.requests) == 1
    assert {each.error.error_class.value for each in results} == {"rate_limited"}
    assert all(900 < each.error.retry_after <= 1000 for each in results)


async def test_pages_are_followed_by_links_up_to_the_limit(open_service, service):
    def page(request):
        number = int(request["path"].rpartition("page=")[2]) if "page=" in request["path"] else 1
        return 200, {"Link": f'<{service.url}/list?page={number + 1}>; rel="next"'}, [number]

    service.answers["/list"] = page
    async with open_service(listing("page", "per_page"), max_pages=5) as rt:
        one = await rt.call("probe.list", {})
        three = await rt.call("probe.list", {"pages": 3, "per_page": 1})
        many = await rt.call("probe.list", {"pages": 6})
    assert (one.value, three.value) == ([1], [1, 2, 3])
    assert "more pages than the 3" in three.text
    assert many.error.error_class.value == "schema_validation_failed"


async def test_the_first_page_without_a_link_ends_a_list_whose_pages_have_links(open_service, service):
    service.answers["/list"] = [(200, {"Link": '</list?page=2>; rel="next"'}, [1]), [2], [3]]
    async with open_service(listing("page")) as rt:
        result = await rt.call("probe.list", {"pages": 9})
    assert result.text == "[1,2]"


@pytest.mark.parametrize(
    "pages",
    [
        [{"items": [1], "next": "/list?offset=1"}, {"items": [2], "next": None}],
        [{"items": [1], "next": "list?offset=1"}, {"items": [2], "next": None}],
        [{"value": [1], "@odata.nextLink": "/list?offset=1"}, {"value": [2]}],
        [{"data": [1], "links": {"next": {"href": "/list?offset=b"}}}, {"data": [2], "links": {}}],
        [{"data": [1], "next_page": {"offset": "b", "uri": "/list?offset=b"}}, {"data": [2]}],
    ],
)
async def test_pages_are_followed_by_a_url_in_the_body(open_service, service, pages):
    service.answers["/list"] = [*pages]
    async with open_service(listing("offset")) as rt:
        result = await rt.call("probe.list", {"pages": 9})
    assert next(each for each in result.value.values() if isinstance(each, list)) == [1, 2]
    assert len(service.requests) == len(pages)
    assert "Note" not in result.text


@pytest.mark.parametrize(
    ("paging", "pages"),
    [
        (("cursor", "next_cursor"), [{"items": [1], "next_cursor": "b"}, {"items": [2], "next_cursor": ""}]),
        (("cursor", "meta.next"), [{"items": [1], "meta": {"next": "b"}}, {"items": [2]}]),
        (("page", "next_page"), [{"items": [1], "next_page": 2}, {"items": [2], "next_page": None}]),
        (("NextToken", "NextToken"), [{"Things": [1], "NextToken": "b"}, {"Things": [2], "NextToken": "b"}]),
        (("anything", "more"), [{"items": [1], "more": "b c&d"}, {"items": [], "more": "e"}, {"items": [2]}]),
    ],
)
async def test_pages_are_followed_by_the_member_that_the_settings_name(open_service, service, paging, pages):
    service.answers["/list"] = [*pages]
    parameter, member = paging
    async with open_service(listing(parameter), paging={"parameter": parameter, "member": member}) as rt:
        result = await rt.call("probe.list", {"pages": 9})
    assert next(each for each in result.value.values() if isinstance(each, list)) == [1, 2]
    assert len(service.requests) == len(pages)
    assert "Note" not in result.text


async def test_the_items_of_pages_are_joined_where_they_are(open_service, service):
    def page(number):
        links = {"next": f"/list?page={number + 1}" if number < 3 else None}
        return {"user": {"roles": ["x"]}, "data": {"list": [number] * 2, "total": 6}, "links": links}

    service.answers["/list"] = [page(1), page(2), page(3), {"data": {"name": "no list"}}]
    async with open_service(listing("page")) as rt:
        all_pages = await rt.call("probe.list", {"pages": 9})
        no_list = await rt.call("probe.list", {"pages": 9})
    items = {"list": [1, 1, 2, 2, 3, 3], "total": 6}
    assert all_pages.value == {"user": {"roles": ["x"]}, "data": items, "links": {"next": None}}
    assert "Note" not in all_pages.text
    assert no_list.value == {"data": {"name": "no list"}}


async def test_next_pages_and_polled_work_have_the_query_of_the_settings(open_service, service):
    def page(request):
        if "api_key=k3y%2Fk3y%2Fk3y" not in request["path"] or "v=1" not in request["path"]:
            return 401, {}, {}
        return (200, {}, [2]) if "page=2" in request["path"] else (200, {"Link": '</list?page=2>; rel="next"'}, [1])

    found = listing("page")
    found["paths"]["/work"] = {"post": operation(operationId="work")}
    found["components"] = {"securitySchemes": {"key": {"type": "apiKey", "in": "query", "name": "api_key"}}}
    found["security"] = [{"key": []}]
    service.answers |= {"/list": page, "/work": (202, {"Location": "/list?page=2"}, b"")}
    settings = {"security": {"key": "${credentials.key}"}, "credentials": {"key": "k3y/k3y/k3y"}, "query": {"v": "1"}}
    async with open_service(found, **settings) as rt:
        results = [await rt.call("probe.list", {"pages": 3}), await rt.call("probe.work", {})]
    assert [each.value for each in results] == [[1, 2], [2]]


@pytest.mark.parametrize("items", [["x" * 900_000], [0] * 45_000])
async def test_pages_end_before_their_result_is_too_large(open_service, service, items):
    def page(request):
        return {"items": [request["path"], *items], "next": f"/list?page={len(service.requests) + 1}"}

    service.answers["/list"] = page
    async with open_service(listing("page")) as rt:
        result = await rt.call("probe.list", {"pages": 9})
    assert len(service.requests) == 3
    assert "page 3 would make the result too large and is left out, so there may be more" in result.text


LINKED = (200, {"Link": '</list?page=2>; rel="next"'}, [1])


@pytest.mark.parametrize(
    ("answers", "note"),
    [
        ([{"items": [1], "next": "https://api.other/list?page=2"}], "has another host"),
        ([(200, {"Link": '<https://api.other/list>; title="<"; rel="next"'}, [1])], "has another host"),
        ([{"items": [1], "next": {"token": "b"}}], "has no link to the next one"),
        ([[1]], "has no link to the next one"),
        ([{"items": [1]}], "has no link to the next one"),
        ([LINKED, [1]], "the same page again"),
        ([LINKED, {"error": "no more"}], "page 2 is not a list"),
        ([LINKED, (404, {}, {})], "page 2 is missing, so there may be more: 'probe' answered 404"),
        (
            [LINKED, (429, {"Retry-After": "1000"}, {})],
            "page 2 is missing, so there may be more: 'probe' answered 429",
        ),
        ([LINKED, (200, {"Content-Type": "application/json"}, b"{")], "page 2 is not JSON"),
    ],
)
async def test_pages_that_cannot_be_fetched_are_reported(open_service, service, answers, note):
    service.answers["/list"] = [*answers]
    async with open_service(listing("page")) as rt:
        result = await rt.call("probe.list", {"pages": 5})
    value = result.structured_content
    assert (value["items"] if isinstance(value, dict) else value) == [1]
    assert note in result.text


async def test_cursors_that_lead_in_a_circle_double_no_items(open_service, service):
    service.answers["/list"] = [{"items": [each], "next_cursor": each} for each in ("b", "c", "b")]
    paging = {"parameter": "cursor", "member": "next_cursor"}
    async with open_service(listing("cursor"), paging=paging) as rt:
        result = await rt.call("probe.list", {"pages": 9})
    assert result.structured_content["items"] == ["b", "c"]
    assert "the same page again" in result.text


async def test_the_lists_of_all_pages_are_joined(open_service, service):
    service.answers["/list"] = [
        {"warnings": [], "fields": ["id"], "items": [1, 1], "next": "/list?page=2"},
        {"warnings": ["slow"], "fields": ["id"], "items": [2], "next": ""},
    ]
    async with open_service(listing("page")) as rt:
        result = await rt.call("probe.list", {"pages": 2})
    assert result.value == {"warnings": ["slow"], "fields": ["id"], "items": [1, 1, 2], "next": ""}


@pytest.mark.parametrize(
    "text", ["<" * 60_000, "<a>;" + " x" * 29_000, "<a> ;" * 12_000, '<a>"' * 15_000, "<a>;rel " * 7_000]
)
async def test_a_long_link_header_is_read_in_one_pass(open_service, service, text):
    service.answers["/list"] = (200, {"Link": text}, [])
    async with open_service(listing("page"), timeout_s=5) as rt:
        result = await rt.call("probe.list", {"pages": 2})
    assert result.value == []


async def test_accepted_work_is_polled_until_it_is_done(open_service, service):
    service.answers["/x"] = (202, {"Location": "/jobs/1"}, {"id": 1})
    service.answers["/jobs/1"] = [(202, {}, {}), (200, {}, {"status": "running"}), (200, {}, {"status": "done"})]
    async with open_service(both()) as rt:
        result = await rt.call("probe.write", {})
    assert result.value == {"status": "done"}
    assert [each["method"] for each in service.requests] == ["POST", "GET", "GET", "GET"]


async def test_a_redirect_to_another_origin_carries_no_credentials(open_service, service):
    other = service.url.replace("127.0.0.1", "localhost")
    service.answers["/x"] = (302, {"Location": f"{other}/y"}, {})
    headers = {"Authorization": "Bearer ${credentials.one}", "X-Key": "${credentials.one}", "X-Plain": "1"}
    async with open_service(
        both(), headers=headers, credentials={"one": "secret-one-1"}, allow=["localhost", "127.0.0.0/8", "::1/128"]
    ) as rt:
        assert (await rt.call("probe.read", {})).ok
    first, second = service.requests
    assert first["headers"]["authorization"] == "Bearer secret-one-1"
    assert (second["path"], "x-plain" in second["headers"]) == ("/y", False)
    assert "secret-one-1" not in json.dumps(second["headers"])


async def test_a_request_with_an_effect_is_not_redirected_to_another_host(open_service, service):
    service.answers["/x"] = (307, {"Location": "http://127.0.0.2:1/y"}, {})
    async with open_service(both()) as rt:
        result = await rt.call("probe.write", {})
    assert result.error.error_code == "redirect"


async def test_a_body_of_a_get_is_not_redirected_to_another_host(open_service, service):
    schema = {"type": "object", "properties": {"x": {"type": "string"}}}
    body = {"required": True, "content": {"application/json": {"schema": schema}}}
    other = service.url.replace("127.0.0.1", "localhost")
    service.answers["/x"] = (307, {"Location": f"{other}/y"}, {})
    found = document({"/x": {"get": operation(operationId="read", body=body)}})
    async with open_service(found, allow=["localhost", "127.0.0.0/8", "::1/128"]) as rt:
        result = await rt.call("probe.read", {"x": "private"})
    assert result.error.error_code == "redirect"
    assert [(each["path"], each["body"]) for each in service.requests] == [("/x", b'{"x":"private"}')]


@pytest.mark.parametrize("status", [301, 302, 307, 308])
@pytest.mark.parametrize("method", ["put", "delete", "patch"])
async def test_a_redirect_keeps_the_method_and_the_body(open_service, service, status, method):
    body = {"content": {"application/json": {"schema": {"type": "object", "properties": {"x": {}}}}}}
    found = document({"/x": {method: operation(operationId="op", body=None if method == "delete" else body)}})
    service.answers["/x"] = (status, {"Location": "/x/"}, {})
    async with open_service(found) as rt:
        result = await rt.call("probe.op", {} if method == "delete" else {"x": 1})
    assert result.ok, result.error
    first, second = service.requests
    assert (second["method"], second["path"], second["body"]) == (method.upper(), "/x/", first["body"])


@pytest.mark.parametrize(("method", "status"), [("post", 301), ("post", 302), ("post", 303), ("delete", 303)])
async def test_a_result_shows_that_a_redirect_changed_the_method_to_get(open_service, service, method, status):
    service.answers |= {"/x": (status, {"Location": "/login"}, {}), "/login": {"page": "login"}}
    async with open_service(document({"/x": {method: operation(operationId="op")}})) as rt:
        result = await rt.call("probe.op", {})
    assert [each["method"] for each in service.requests] == [method.upper(), "GET"]
    assert result.structured_content == {"page": "login"}
    assert f"answered {method.upper()} with status {status}; this is GET {service.url}/login" in result.text


@pytest.mark.parametrize("status", [202, 303])
async def test_a_request_that_was_answered_is_not_reported_as_unsent_or_sent_again(open_service, service, status):
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
    target = f"http://127.0.0.1:{port}/done"
    service.answers |= {"/x": (status, {"Location": target if status == 303 else "/job"}, {})}
    service.answers["/job"] = (307, {"Location": target}, {})
    async with open_service(both()) as rt:
        result = await rt.call("probe.write", {})
    assert [each["method"] for each in service.requests if each["path"] == "/x"] == ["POST"]
    assert "nothing was sent" not in result.error.message
    assert "after a redirect, the connection failed: ConnectionRefusedError; it may have acted" in result.error.message
    assert result.error.retry.safe is False


async def test_a_redirect_to_an_internal_address_is_refused(open_service, service):
    service.answers["/x"] = (302, {"Location": "http://169.254.169.254/latest/meta-data"}, {})
    async with open_service(both()) as rt:
        result = await rt.call("probe.read", {})
    assert result.error.error_code == "refused"
    assert "public address" in result.error.message


async def test_error_bodies_name_what_the_caller_can_change(open_service, service):
    bodies = {
        "/problem": (422, {"Content-Type": "application/problem+json"}, b'{"title":"Bad","detail":"name is too long"}'),
        "/fastapi": (422, {}, {"detail": [{"loc": ["body", "age"], "msg": "must be a number"}]}),
        "/github": (400, {}, {"message": "Invalid", "errors": [{"field": "sha", "message": "not found"}]}),
        "/html": (404, {"Content-Type": "text/html"}, b"<html><h1>Not   here</h1></html>"),
        "/nest": (400, {}, {"message": ["age must be int", "name must be text"], "error": "Bad Request"}),
        "/stripe": (400, {}, {"error": {"message": "No such customer", "param": "customer"}}),
    }
    service.answers |= bodies
    found = document({path: {"get": operation(operationId=path[1:])} for path in bodies})
    async with open_service(found) as rt:
        errors = {path[1:]: (await rt.call(f"probe.{path[1:]}", {})).error for path in bodies}
    assert "422: name is too long: Bad" in errors["problem"].message
    assert "body.age: must be a number" in errors["fastapi"].message
    assert "sha: not found" in errors["github"].message
    assert "404: Not here" in errors["html"].message
    assert "Bad Request: age must be int; name must be text" in errors["nest"].message
    assert "No such customer" in errors["stripe"].message
    assert {each.error_class.value for name, each in errors.items() if name != "html"} == {"invalid_arguments"}
    assert errors["fastapi"].retry.arguments_must_change is True


async def test_responses_become_content_by_their_media_type(open_service, service):
    service.answers |= {
        "/image": (200, {"Content-Type": "image/png"}, b"\x89PNG"),
        "/xml": (200, {"Content-Type": "application/xml"}, b"<a/>"),
        "/none": (204, {}, b""),
        "/broken": (200, {"Content-Type": "application/json"}, b"{not json"),
        "/wrong": (200, {"Content-Type": "text/plain"}, b"<html>"),
    }
    found = document({path: {"get": operation(operationId=path[1:])} for path in service.answers})
    async with open_service(found) as rt:
        results = {path[1:]: await rt.call(f"probe.{path[1:]}", {}) for path in [*service.answers]}
    assert all(each.ok for each in results.values())
    assert results["image"].content[0].type.value == "image"
    assert results["xml"].text == "<a/>"
    assert results["none"].text == "status 204, no content"
    assert results["broken"].text == "Note: the response is declared as application/json and is not JSON.\n{not json"
    assert results["wrong"].text == "<html>"


async def test_a_page_where_the_document_lists_only_json_is_returned_with_a_note(open_service, service):
    service.answers["/list"] = (200, {"Content-Type": "text/html; charset=utf-8"}, b"<html>Log in</html>")
    async with open_service(listing(responses={"200": {"content": {"application/json": {}}}})) as rt:
        result = await rt.call("probe.list", {})
    note = "Note: the response is text/html, but the service's own document lists application/json."
    assert result.text == f"{note}\n<html>Log in</html>"


@pytest.mark.parametrize(("status", "is_safe"), [(400, True), (422, True), (429, True), (404, False), (500, False)])
async def test_a_request_that_the_service_did_not_accept_had_no_effect(open_service, service, status, is_safe):
    service.answers["/x"] = (status, {}, {"message": "no"})
    async with open_service(both(), attempts=1) as rt:
        result = await rt.call("probe.write", {})
    assert result.error.retry.safe is is_safe
    assert ("may have taken effect" in result.text) is not is_safe


async def test_a_response_that_violates_its_own_schema_is_returned_and_reported(open_service, service):
    schema = {"type": "object", "properties": {"id": {"type": "integer"}}, "required": ["id"]}
    found = listing(responses={"200": {"content": {"application/json": {"schema": schema}}}})
    service.answers["/list"] = [{"id": "seven"}, {"id": 7}]
    async with open_service(found) as rt:
        wrong, right = await rt.call("probe.list", {}), await rt.call("probe.list", {})
    assert wrong.ok
    assert wrong.structured_content == {"id": "seven"}
    assert "does not fit the schema of the service's own document at /id: expected integer" in wrong.text
    assert right.text == '{"id":7}'


@pytest.mark.parametrize("kind", ["*/*", "application/*", "application/json;charset=UTF-8", "Application/JSON"])
async def test_a_response_is_checked_by_the_media_range_that_it_matches(open_service, service, kind):
    content = {"text/*": {"schema": False}, kind: {"schema": {"type": "array"}}}
    service.answers["/list"] = {"id": 7}
    async with open_service(listing(responses={"200": {"content": content}})) as rt:
        result = await rt.call("probe.list", {})
    assert "does not fit the schema of the service's own document at /: expected array" in result.text


async def test_pages_that_violate_their_schema_are_reported(open_service, service):
    schema = {"type": "array", "items": {"type": "integer"}}
    found = listing("page", responses={"200": {"content": {"application/json": {"schema": schema}}}})
    service.answers["/list"] = [LINKED, ["two"]]
    async with open_service(found) as rt:
        result = await rt.call("probe.list", {"pages": 3})
    assert result.structured_content == [1, "two"]
    assert "does not fit the schema of the service's own document at /0: expected integer" in result.text


async def test_a_response_that_is_too_long_is_not_read(open_service, service):
    service.answers["/x"] = [
        (200, {"Content-Length": str(2**30)}, b"x"),
        (200, {"Content-Type": "text/plain"}, b"x" * 200_000),
    ]
    async with open_service(both(), max_response_bytes=100_000) as rt:
        results = [await rt.call("probe.read", {}) for _ in range(2)]
    assert {each.error.error_class.value for each in results} == {"result_too_large"}
    assert "raise max_response_bytes" in results[0].error.message


async def test_the_announced_length_of_a_head_response_is_no_limit(open_service, service):
    service.answers["/x"] = (200, {"Content-Length": str(2**30)}, b"")
    async with open_service(document({"/x": {"head": operation(operationId="op")}})) as rt:
        result = await rt.call("probe.op", {})
    assert result.text == "status 200, no content"


async def test_a_byte_order_mark_is_no_part_of_json(open_service, service):
    service.answers["/x"] = (200, {"Content-Type": "application/json"}, b'\xef\xbb\xbf{"a":1}')
    async with open_service(both()) as rt:
        assert (await rt.call("probe.read", {})).value == {"a": 1}


async def test_a_cookie_of_one_call_is_not_sent_by_another(open_service, service):
    service.answers["/x"] = lambda _: (200, {"Set-Cookie": "session=ada; Path=/"}, {})
    async with open_service(both()) as rt:
        assert [(await rt.call("probe.read", {})).ok for _ in range(2)] == [True, True]
    assert [each["headers"].get("cookie") for each in service.requests] == [None, None]


async def test_a_service_that_is_gone_or_stalls_is_reported(open_service, service, tmp_path):
    listener = socket.create_server(("127.0.0.1", 0))
    port = listener.getsockname()[1]
    async with open_service(both(), server=f"http://127.0.0.1:{port}", timeout_s=0.5, attempts=1) as rt:
        stalled = await rt.call("probe.write", {})
        listener.close()
        gone = await rt.call("probe.write", {})
    assert stalled.error.error_class.value in ("timeout", "dependency_unavailable")
    assert gone.error.message.startswith("nothing was sent to 'probe'")
    assert gone.error.retry.safe is True
