"""The conversion of a Swagger 2.0 document to the form of OpenAPI 3; schemas stay where they are."""

from collections.abc import Mapping

from agenttool.adapters.openapi.document import DocumentError, References, UnreadableDocument, string_of
from agenttool.adapters.openapi.operations import FORM, METHODS, MULTIPART
from agenttool.adapters.openapi.shapes import (
    LIST,
    OBJECT,
    OBJECTS,
    TEXT,
    TEXTS,
    Report,
    SkippedPart,
    escape,
    object_with,
)
from agenttool.codec import list_of, object_of
from agenttool.records import Json, JsonObject

_STYLES: dict[str, tuple[str, bool]] = {
    "csv": ("form", False),
    "ssv": ("spaceDelimited", False),
    "tsv": ("tabDelimited", False),
    "pipes": ("pipeDelimited", False),
    "multi": ("form", True),
}
_DOCUMENT = object_with(
    consumes=TEXTS,
    produces=TEXTS,
    schemes=TEXTS,
    host=TEXT,
    basePath=TEXT,
    definitions=OBJECT,
    securityDefinitions=OBJECTS,
)
_PATH_ITEM = object_with(parameters=LIST)
_OPERATION = object_with(consumes=TEXTS, produces=TEXTS, parameters=LIST, responses=OBJECT)
_FLOWS = {"application": "clientCredentials", "accessCode": "authorizationCode"}
_SCHEMA_WORDS = (
    *("type", "format", "items", "default", "maximum", "exclusiveMaximum", "minimum", "exclusiveMinimum", "maxLength"),
    *("minLength", "pattern", "maxItems", "minItems", "uniqueItems", "enum", "multipleOf", "x-nullable"),
)


def convert(
    root: JsonObject, place: str, external: Mapping[str, JsonObject | UnreadableDocument], report: Report
) -> JsonObject:
    """Return a document in the form of OpenAPI 3.0; the targets of references stay where they are.

    An operation that cannot be converted is reported, and left out.
    """
    references = References(root, place, external)
    root = object_of(_DOCUMENT.fit(root, "", report))
    native = root.get("paths")
    if not isinstance(native, dict):
        return root
    paths: JsonObject = {}
    for path, item in native.items():
        pointer = f"/paths/{escape(path)}"
        paths[path] = _path_item(references, root, item, pointer, report) if isinstance(item, dict) else item
    schemes = object_of(root.get("securityDefinitions")).items()
    components: JsonObject = {
        "schemas": object_of(root.get("definitions")),
        "securitySchemes": {name: _security_scheme(object_of(each)) for name, each in schemes},
    }
    return {**root, "openapi": "3.0.3", "paths": paths, "components": components, "servers": _servers(root, place)}


def _path_item(references: References, root: JsonObject, item: JsonObject, pointer: str, report: Report) -> JsonObject:
    item = object_of(_PATH_ITEM.fit(item, pointer, report))
    shared = list_of(item.pop("parameters", None))
    for method in METHODS:
        operation, place = item.get(method), f"{pointer}/{method}"
        if isinstance(operation, dict):
            try:
                fitting = object_of(_OPERATION.fit(operation, place, report))
                item[method] = _operation(references, root, fitting, shared)
            except DocumentError as error:
                report(SkippedPart(place, str(error)))
                del item[method]
    return item


def _operation(references: References, root: JsonObject, operation: JsonObject, shared: list[Json]) -> JsonObject:
    resolved = (references.resolve(each, "") for each in (*shared, *list_of(operation.get("parameters"))))
    parameters = {(each.get("in"), each.get("name")): each for each in resolved}.values()
    fields = [each for each in parameters if each.get("in") == "formData"]
    bodies = [each for each in parameters if each.get("in") == "body"]
    others = [each for each in parameters if each.get("in") not in ("formData", "body")]
    consumes, produces = (list_of(operation.get(word, root.get(word))) for word in ("consumes", "produces"))
    found: JsonObject = {**operation, "parameters": [_parameter(each) for each in others]}
    if fields:
        found["requestBody"] = _form(fields, consumes)
    elif bodies:
        found["requestBody"] = {
            "description": bodies[0].get("description"),
            "required": bodies[0].get("required") is True,
            "content": _content(bodies[0].get("schema", {}), consumes),
        }
    responses = object_of(operation.get("responses")).items()
    found["responses"] = {status: _response(references, each, produces) for status, each in responses}
    return found


def _content(schema: Json, media_types: list[Json]) -> JsonObject:
    return {string_of(each): {"schema": schema} for each in media_types or ["application/json"]}


def _parameter(parameter: JsonObject) -> JsonObject:
    found: JsonObject = {key: value for key, value in parameter.items() if key not in _SCHEMA_WORDS}
    found["schema"] = _schema(parameter)
    if parameter.get("type") == "array":
        found |= _style(parameter)
        if found["style"] == "form" and parameter.get("in") in ("path", "header"):
            found["style"] = "simple"
    return found


def _style(parameter: JsonObject) -> JsonObject:
    style, explode = _STYLES.get(str(parameter.get("collectionFormat")), _STYLES["csv"])
    return {"style": style, "explode": explode}


def _schema(parameter: JsonObject) -> JsonObject:
    schema: JsonObject = {key: value for key, value in parameter.items() if key in _SCHEMA_WORDS}
    return schema | ({"type": "string", "format": "binary"} if schema.get("type") == "file" else {})


def _form(fields: list[JsonObject], consumes: list[Json]) -> JsonObject:
    has_file = any(each.get("type") == "file" for each in fields)
    kind = MULTIPART if has_file else next((str(each) for each in consumes if each in (FORM, MULTIPART)), FORM)
    named = [(str(each.get("name")), each) for each in fields]
    required: list[Json] = [name for name, each in named if each.get("required") is True]
    schema: JsonObject = {
        "type": "object",
        "properties": {name: {**_schema(each), "description": each.get("description")} for name, each in named},
        "required": required,
    }
    encoding: JsonObject = {name: _style(each) for name, each in named if each.get("type") == "array"}
    return {"required": bool(required), "content": {kind: {"schema": schema, "encoding": encoding}}}


def _response(references: References, value: Json, produces: list[Json]) -> Json:
    try:
        response = references.resolve(value, "")
    except DocumentError:
        return value  # it is reported where the responses are read
    return {**response, "content": _content(response["schema"], produces)} if "schema" in response else response


def _security_scheme(scheme: JsonObject) -> JsonObject:
    kind = scheme.get("type")
    if kind == "basic":
        return {**scheme, "type": "http", "scheme": "basic"}
    if kind != "oauth2":
        return scheme
    name = str(scheme.get("flow"))
    return {**scheme, "flows": {_FLOWS.get(name, name): scheme}}


def _servers(root: JsonObject, place: str) -> list[Json]:
    base, host = string_of(root.get("basePath")), root.get("host")
    schemes = list_of(root.get("schemes")) or (["http"] if place.startswith("http://") else ["https"])
    scheme = "https" if "https" in schemes else schemes[0]
    return [{"url": f"{scheme}://{host}{base}" if host else base or "/"}]
