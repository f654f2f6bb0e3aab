"""The conversion of a Swagger 2.0 document to the form of OpenAPI 3; schemas stay where they are."""

from collections.abc import Mapping

from agenttool.adapters.openapi.document import DocumentError, References, UnreadableDocument, list_of, object_of
from agenttool.adapters.openapi.operations import FORM, METHODS, MULTIPART
from agenttool.adapters.openapi.shapes import OBJECT, OBJECTS, TEXT, TEXTS, Report, Shape, escape
from agenttool.records import Json, JsonObject

_STYLES: dict[str, tuple[str, bool]] = {
    "csv": ("form", False),
    "ssv": ("spaceDelimited", False),
    "tsv": ("tabDelimited", False),
    "pipes": ("pipeDelimited", False),
    "multi": ("form", True),
}
_LIST = Shape(list)
_MEDIA_TYPES = {"consumes": TEXTS, "produces": TEXTS}
_DOCUMENT = Shape(
    dict,
    members={
        **_MEDIA_TYPES,
        "schemes": TEXTS,
        "host": TEXT,
        "basePath": TEXT,
        "definitions": OBJECT,
        "securityDefinitions": OBJECTS,
    },
)
_PATH_ITEM = Shape(dict, members={"parameters": _LIST})
_OPERATION = Shape(dict, members={**_MEDIA_TYPES, "parameters": _LIST, "responses": OBJECT})
_FLOWS = {"application": "clientCredentials", "accessCode": "authorizationCode"}
_SCHEMA_WORDS = (
    *("type", "format", "items", "default", "maximum", "exclusiveMaximum", "minimum", "exclusiveMinimum", "maxLength"),
    *("minLength", "pattern", "maxItems", "minItems", "uniqueItems", "enum", "multipleOf", "x-nullable"),
)


def convert(
    root: JsonObject, place: str, external: Mapping[str, JsonObject | UnreadableDocument], report: Report
) -> JsonObject:
    """Return a document in the form of OpenAPI 3.0; the targets of references stay where they are.

    An operation that cannot be converted is copied, and `x-agenttool-error` in it has the reason.
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
    components: JsonObject = {
        "schemas": object_of(root.get("definitions")),
        "securitySchemes": {
            name: _security_scheme(object_of(each)) for name, each in object_of(root.get("securityDefinitions")).items()
        },
    }
    return {**root, "openapi": "3.0.3", "paths": paths, "components": components, "servers": _servers(root, place)}


def _path_item(references: References, root: JsonObject, item: JsonObject, pointer: str, report: Report) -> JsonObject:
    item = object_of(_PATH_ITEM.fit(item, pointer, report))
    shared = item.get("parameters")
    found: JsonObject = {key: value for key, value in item.items() if key != "parameters"}
    for method in METHODS:
        operation = item.get(method)
        if isinstance(operation, dict):
            try:
                fitting = object_of(_OPERATION.fit(operation, f"{pointer}/{method}", report))
                found[method] = _operation(references, root, fitting, shared)
            except DocumentError as error:
                found[method] = {**operation, "x-agenttool-error": str(error)}
    return found


def _operation(references: References, root: JsonObject, operation: JsonObject, shared: Json) -> JsonObject:
    parameters: dict[tuple[str, str], JsonObject] = {}
    for each in (*list_of(shared), *list_of(operation.get("parameters"))):
        parameter = references.resolve(each, "")
        parameters[str(parameter.get("in")), str(parameter.get("name"))] = parameter
    groups: dict[str, list[JsonObject]] = {"body": [], "formData": [], "": []}
    for (where, _), each in parameters.items():
        groups[where if where in groups else ""].append(each)
    bodies, fields, others = groups.values()
    consumes = _media_types(operation, root, "consumes")
    found: JsonObject = {**operation, "parameters": [_parameter(each) for each in others]}
    if fields:
        found["requestBody"] = _form(fields, consumes)
    elif bodies:
        schema = bodies[0].get("schema", {})
        media: JsonObject = {each: {"schema": schema} for each in consumes or ["application/json"]}
        found["requestBody"] = {
            "description": bodies[0].get("description"),
            "required": bodies[0].get("required") is True,
            "content": media,
        }
    produces = _media_types(operation, root, "produces") or ["application/json"]
    found["responses"] = {
        status: _response(references, each, produces) for status, each in object_of(operation.get("responses")).items()
    }
    return found


def _parameter(parameter: JsonObject) -> JsonObject:
    found: JsonObject = {key: value for key, value in parameter.items() if key not in _SCHEMA_WORDS}
    found["schema"] = _schema(parameter)
    if parameter.get("type") == "array":
        found |= _style(parameter)
        if found["style"] == "form" and parameter.get("in") in ("path", "header"):
            found["style"] = "simple"
    return found


def _style(parameter: JsonObject) -> JsonObject:
    style, explode = _STYLES.get(str(parameter.get("collectionFormat", "csv")), ("form", False))
    return {"style": style, "explode": explode}


def _schema(parameter: JsonObject) -> JsonObject:
    schema: JsonObject = {key: value for key, value in parameter.items() if key in _SCHEMA_WORDS}
    if schema.get("type") == "file":
        schema |= {"type": "string", "format": "binary"}
    return schema


def _form(fields: list[JsonObject], consumes: list[str]) -> JsonObject:
    has_file = any(each.get("type") == "file" for each in fields)
    known = [each for each in consumes if each in (FORM, MULTIPART)]
    kind = MULTIPART if has_file else known[0] if known else FORM
    encoding: JsonObject = {str(each.get("name")): _style(each) for each in fields if each.get("type") == "array"}
    properties: JsonObject = {
        str(each.get("name")): {**_schema(each), "description": each.get("description")} for each in fields
    }
    required: list[Json] = [str(each.get("name")) for each in fields if each.get("required") is True]
    schema: JsonObject = {"type": "object", "properties": properties, "required": required}
    return {"required": bool(required), "content": {kind: {"schema": schema, "encoding": encoding}}}


def _response(references: References, value: Json, produces: list[str]) -> Json:
    try:
        response = references.resolve(value, "")
    except DocumentError:
        return value
    if "schema" not in response:
        return response
    return {**response, "content": {each: {"schema": response["schema"]} for each in produces}}


def _security_scheme(scheme: JsonObject) -> JsonObject:
    kind = scheme.get("type")
    if kind == "basic":
        return {**scheme, "type": "http", "scheme": "basic"}
    if kind != "oauth2":
        return scheme
    flow: JsonObject = {key: scheme[key] for key in ("authorizationUrl", "tokenUrl", "scopes") if key in scheme}
    name = str(scheme.get("flow"))
    return {"type": "oauth2", "description": scheme.get("description"), "flows": {_FLOWS.get(name, name): flow}}


def _servers(root: JsonObject, place: str) -> list[Json]:
    base = str(root.get("basePath") or "")
    named = [str(each) for each in list_of(root.get("schemes"))]
    preferred = "https" if "https" in named or not named else named[0]
    if not named and place.startswith("http://"):
        preferred = "http"
    host = root.get("host")
    return [{"url": f"{preferred}://{host}{base}" if host else base or "/"}]


def _media_types(operation: JsonObject, root: JsonObject, member: str) -> list[str]:
    return [each for each in list_of(operation.get(member, root.get(member))) if isinstance(each, str)]
