"""Small OpenAPI documents."""


def document(paths, **members):
    """Return an OpenAPI 3.0 document."""
    return {"openapi": "3.0.3", "info": {"title": "Probe", "version": "1"}, "paths": paths, **members}


def operation(*parameters, body=None, **members):
    """Return an operation with these parameters."""
    found = {"responses": {"200": {"description": "ok"}}, **members}
    if parameters:
        found["parameters"] = [*parameters]
    if body is not None:
        found["requestBody"] = body
    return found
