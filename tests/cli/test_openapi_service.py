"""`agenttool sources add openapi` and `agenttool sources request`."""

import json
import tomllib

import pytest
from typer.testing import CliRunner

from agenttool.cli.main import app
from agenttool.cli.openapi_service import service_name

DOCUMENT = {
    "openapi": "3.0.3",
    "info": {"title": "Pets", "version": "1"},
    "servers": [{"url": "https://pets.example"}],
    "components": {"securitySchemes": {"key": {"type": "apiKey", "in": "header", "name": "X-Key"}}},
    "security": [{"key": []}],
    "paths": {
        "/pets/{id}": {
            "get": {
                "operationId": "getPet",
                "parameters": [{"name": "id", "in": "path", "required": True, "schema": {"type": "integer"}}],
            },
            "post": {"operationId": "bad", "parameters": [{"$ref": "#/none"}]},
        }
    },
}
SECRET = "secret-of-pets-1"  # noqa: S105 -- of no service


@pytest.fixture
def run(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.setenv("COLUMNS", "200")
    monkeypatch.setenv("PETS_KEY", SECRET)
    (tmp_path / "pets.json").write_text(json.dumps(DOCUMENT))

    def ran(*words):
        return CliRunner().invoke(app, ["sources", *words])

    return ran


def test_a_service_is_added_with_what_it_brings_and_what_is_skipped(run, tmp_path):
    shown = run("add", "openapi", "pets.json", "--security", "key=PETS_KEY", "--dry-run")
    assert shown.exit_code == 0, shown.output
    assert "pets  Pets (OpenAPI 3.0.3)" in shown.output
    assert "1 tool, " in shown.output
    assert "/paths/~1pets~1{id}/post/parameters/0: the reference '#/none' leads to nothing" in shown.output
    assert "security key (apiKey header): configured" in shown.output
    assert not (tmp_path / "agenttool.toml").exists()
    added = run("add", "openapi", "pets.json", "--security", "key=PETS_KEY", "--json")
    assert json.loads(added.stdout)["tools"] == 1
    text = (tmp_path / "agenttool.toml").read_text()
    assert tomllib.loads(text) == {
        "sources": {
            "pets": {"kind": "openapi", "document": "pets.json", "security": {"key": "${credentials.pets_key}"}}
        },
        "credentials": {"pets_key": {"env": "PETS_KEY"}},
    }
    request = run("request", "pets", "getPet", "id=7")
    assert request.output.splitlines()[0] == "GET https://pets.example/pets/7"
    assert "X-Key: [redacted]" in request.output
    assert SECRET not in shown.output + added.output + request.output + text


def test_parts_that_are_ignored_are_printed_with_their_pointers_and_json_lists_all(run, tmp_path):
    wrong = {f"p{number}": {"type": "integer", "minimum": "x"} for number in range(12)}
    body = {"content": {"application/json": {"schema": {"type": "object", "properties": wrong}}}}
    paths = {"/pets": {"post": {"operationId": "add", "tags": "pets", "requestBody": body}}}
    (tmp_path / "pets.json").write_text(json.dumps({**DOCUMENT, "paths": paths}))
    place = "/paths/~1pets/post/requestBody/content/application~1json/schema/properties"
    shown = run("add", "openapi", "pets.json").output
    assert "/paths/~1pets/post/tags: it must be a list, got str (part ignored)" in shown
    assert "parts of schemas that are not checked (12):" in shown
    assert f"{place}/p0/minimum: it must be a number, got 'x' (part ignored), and 11 more like it" in shown
    assert "--json lists all with their pointers" in shown
    [listed] = map(json.loads, run("--json").stdout.splitlines())
    assert listed["skipped"] == [
        {"pointer": "/paths/~1pets/post/tags", "reason": "it must be a list, got str", "effect": "part ignored"}
    ]
    assert [each["pointer"] for each in listed["findings"]] == [f"{place}/p{number}/minimum" for number in range(12)]


def test_adding_a_service_says_what_its_first_call_needs(run, tmp_path, monkeypatch):
    monkeypatch.delenv("PETS_KEY")
    local = {**DOCUMENT, "servers": [{"url": "http://127.0.0.1:9/v1"}]}
    (tmp_path / "pets.json").write_text(json.dumps(local))
    shown = run("add", "openapi", "pets.json", "--dry-run")
    assert "requests to 'http://127.0.0.1:9/v1' are not allowed: a URL must " in shown.output
    assert '; to allow it, write allow = ["127.0.0.1"] into [sources.pets]' in shown.output
    assert (
        "security key (apiKey header): no credential; the same command with --security key=VARIABLE adds one"
        in shown.output
    )
    header = run("add", "openapi", "pets.json", "--allow", "127.0.0.1", "--header", f"X-Key: Token {SECRET}")
    assert "not allowed" not in header.output
    assert "security key (apiKey header): configured" in header.output
    assert "requests have 'X-Key: Token $PETS_X_KEY'" in header.output
    scheme = run("add", "openapi", "pets.json", "--name", "other", "--security", "key=PETS_KEY")
    assert "requests have 'X-Key: $PETS_KEY'" in scheme.output


def test_a_search_says_that_tools_without_their_credential_are_left_out(run, monkeypatch):
    monkeypatch.delenv("PETS_KEY")
    run("add", "openapi", "pets.json", "--security", "key=PETS_KEY")
    found = CliRunner().invoke(app, ["search", "get a pet", "--model", "none"])
    assert "1 tool was left out of the search: it needs the credential pets_key" in found.output


@pytest.mark.parametrize("members", [{"webhooks": {"new": {"post": {}}}}, {"paths": {}}])
def test_a_document_without_operations_says_so(run, tmp_path, members):
    document = {"openapi": "3.1.0", "info": {"title": "Hooks", "version": "1"}, **members}
    (tmp_path / "hooks.json").write_text(json.dumps(document))
    shown = run("add", "openapi", "hooks.json", "--dry-run").output
    assert "the document describes no operation that can be called; name another one" in shown


def test_a_document_that_cannot_be_read_is_not_added(run, tmp_path):
    found = run("add", "openapi", "none.json")
    assert found.exit_code == 1
    assert f"cannot be read: No such file or directory: '{tmp_path / 'none.json'}'" in "".join(found.output.split("\n"))
    assert not (tmp_path / "agenttool.toml").exists()


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", "the document is empty; name another one"),
        ("<!DOCTYPE html><html></html>", "it is HTML or XML; name the JSON or YAML document itself"),
        (
            '{"openapi": "3.1.0", ',
            "it must be JSON: Input data was truncated, at line 1, column 22; complete or repair it",
        ),
        ('{"name": "x"}', "it has neither the member openapi nor swagger; name a document of OpenAPI 3.0 to 3.2"),
        ('{"openapi": "4.0.0"}', "its version is '4.0.0'; name a document of OpenAPI 3.0 to 3.2"),
    ],
)
def test_a_file_that_is_no_document_says_what_it_is(run, tmp_path, text, reason):
    (tmp_path / "x.json").write_text(text)
    shown = run("add", "openapi", "x.json", "--dry-run").output
    assert f"x: the document of 'x' cannot be read: {reason}" in shown


def test_the_same_command_with_another_option_changes_the_source_and_keeps_its_other_lines(run, tmp_path):
    file = tmp_path / "agenttool.toml"
    assert "the same command with --security key=VARIABLE adds one" in run("add", "openapi", "pets.json").output
    file.write_text(file.read_text().replace('kind = "openapi"', 'kind = "openapi" # pets\ntrust = true'))
    CliRunner().invoke(app, ["trust", ".", "--yes"])
    changed = run("add", "openapi", "pets.json", "--security", "key=PETS_KEY")
    assert "changed pets in agenttool.toml" in changed.output
    assert "security key (apiKey header): configured" in changed.output
    assert "# pets" in file.read_text()
    assert tomllib.loads(file.read_text()) == {
        "sources": {
            "pets": {
                "kind": "openapi",
                "trust": True,
                "document": "pets.json",
                "security": {"key": "${credentials.pets_key}"},
            }
        },
        "credentials": {"pets_key": {"env": "PETS_KEY"}},
    }
    again = run("add", "openapi", "pets.json", "--security", "key=OTHER_KEY", "--allow", "10.0.0.1")
    assert again.exit_code == 0, again.output
    assert tomllib.loads(file.read_text())["sources"]["pets"]["security"] == {"key": "${credentials.other_key}"}
    before = file.read_text()
    assert "nothing changed: pets in" in run("add", "openapi", "pets.json").output
    assert file.read_text() == before
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "pets.json").write_text(json.dumps(DOCUMENT))
    refused = run("add", "openapi", "other/pets.json")
    assert "there is a source 'pets' already" in refused.output


def test_a_table_that_is_written_in_another_way_is_left_to_the_user(run, tmp_path):
    file = tmp_path / "agenttool.toml"
    run("add", "openapi", "pets.json")
    file.write_text(file.read_text() + '[sources.pets.security]\nother = "x"\n')
    CliRunner().invoke(app, ["trust", ".", "--yes"])
    before = file.read_text()
    refused = run("add", "openapi", "pets.json", "--security", "key=PETS_KEY")
    assert "write these lines yourself:\n[sources.pets]\nsecurity = {" in refused.output
    assert file.read_text() == before


@pytest.mark.parametrize(
    ("place", "title", "name"),
    [
        ("https://api.github.com/openapi.json", "", "github"),
        ("/x/api.github.com.json", "", "github"),
        ("stripe.yaml", "", "stripe"),
        ("https://api.io", "", "api"),
        ("http://127.0.0.1:8000/openapi.json", "FastAPI", "fastapi"),
        ("openapi.json", "Swagger Petstore - OpenAPI 3.0", "petstore"),
        ("v3.yaml", "The Pet Shop REST API of Ada", "pet_shop"),
        ("https://raw.githubusercontent.com/x/y/main/spec3.json", "GitHub v3 REST API", "github"),
    ],
)
def test_a_service_is_named_by_its_host_or_file_or_else_by_its_title(run, tmp_path, place, title, name):
    assert service_name(place, lambda: title) == name
    if "/" not in place:
        (tmp_path / place).write_text(json.dumps({**DOCUMENT, "info": {"title": title, "version": "1"}}))
        assert json.loads(run("add", "openapi", place, "--json").stdout)["source"] == name
