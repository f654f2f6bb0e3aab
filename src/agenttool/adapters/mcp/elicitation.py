"""Questions of a server to the user: each is an approval request, whose input the approver completes.

A question is a nested call of the tool `ask_user` of the server. The approver edits `answer` and allows the call, or
denies it. So questions are recorded, stored and answered as all other approvals, by the console or the command line.
"""

import logging
import re

from agenttool.adapters.mcp.settings import McpServer
from agenttool.codec import object_of
from agenttool.errors import RecordError, ToolFailure
from agenttool.http.ssrf import auth_url_error
from agenttool.ports.executor import Job
from agenttool.ports.tool import DeclaredTool, own_tool
from agenttool.records import ErrorClass, Json, JsonObject, Lifecycle, ToolError, ToolKind, WriteEffect
from agenttool.schema.compile import compile_schema

log = logging.getLogger("agenttool.mcp")

ASK_USER = "ask_user"

REASON_KEY = "agenttool/reason"
"""The member of `_meta` with the reason for which the user was not asked."""

REFUSALS = (ErrorClass.APPROVAL_REJECTED, ErrorClass.PERMISSION_DENIED, ErrorClass.POLICY_BLOCKED)
"""The errors of calls that an approver or a rule refused."""

_WORD = re.compile(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])|\d+")
_SECRET = re.compile(
    r"((passw(or)?d|passphrase|passcode|pwd|secret|credential|bearer|seed ?phrase|card ?number|one ?time ?(code|pass)"
    r"|(api|access|private|auth\w*|recovery|secret) ?key|(api|access|auth\w*) ?token)s?"
    r"|\b(token|pin|cvv|cvc|t?otp|pat|ssn))"
    r"\b(?! (count|expiry|hint|length|limit|manager|name|policy|type|usage)\b)"
)
"""The words of a label that asks for a secret; "password length" asks for none."""

_MAX_LABEL_WORDS = 5
"""A description of more words explains a field, and may mention a secret that is not wanted."""

_INPUT: JsonObject = {
    "type": "object",
    "properties": {
        "message": {"type": "string"},
        "schema": {"type": "object", "description": "What the answer must look like."},
        "answer": {"type": "object", "description": "Complete this before you allow the call."},
        "url": {"type": "string", "description": "Open this page before you allow the call."},
        "key": {"type": "string", "description": "How the server names the question among those of one call."},
    },
    "required": ["message"],
}


class AskExecutor:
    """Returns the answer as the approver completed it."""

    async def start(self, job: Job, /) -> object:
        """Check the answer, and return it.

        Raises:
            ToolFailure: it does not fit the schema of the question.
        """
        answer, schema = job.call_input.get("answer") or {}, job.call_input.get("schema")
        if isinstance(schema, dict):
            try:
                misfits = compile_schema(schema).misfits(answer)
            except RecordError as error:
                raise _invalid(f"the schema of the question cannot be used: {error}") from error
            if misfits:
                place = f"{misfits[0].pointer or 'the answer'} must be {misfits[0].expected}"
                raise _invalid(f"the answer does not fit: {place}; complete `answer` in the input")
        return {"answer": answer}


def _invalid(message: str) -> ToolFailure:
    return ToolFailure(ToolError(error_class=ErrorClass.EXECUTION_FAILED, error_code="invalid_answer", message=message))


def ask_tool(server: McpServer) -> DeclaredTool:
    """Return the tool by which a server's questions reach an approver.

    It is declared as deprecated, so that calls reach it and models are not shown it. It needs a user, so that no rule
    that allows the tools of the server answers in place of the user.
    """
    reason = "the server asks the user: complete `answer`, or open `url`, and allow the call; deny it to decline"
    return own_tool(
        AskExecutor(),
        namespace=server.name,
        name=ASK_USER,
        kind=ToolKind.CUSTOM,
        description=f"Ask the user a question of the server {server.name}. Only its tools call this.",
        schema=_INPUT,
        lifecycle=Lifecycle.DEPRECATED,
        interface={
            "is_read_only": True,
            "is_destructive": False,
            "is_concurrency_safe": True,
            "requires_user_interaction": True,
        },
        permission={"write_effects": (WriteEffect.NONE,), "approval_required": True, "approval_reason": reason},
    )


async def elicit(server: McpServer, job: Job, params: JsonObject, key: str | None = None) -> JsonObject:
    """Ask the user a question of a server within a call; return the result of the elicitation.

    Args:
        server: the server that asks.
        job: the call.
        params: the parameters of `elicitation/create`.
        key: how the server names the question; None if it does not.
    """
    question, fault = _question(params)
    if fault is not None:
        reason = f"the question is not shown to the user: {fault}"
        log.warning("server %r: %s", server.name, reason)
        job.report(reason)
        return {"action": "cancel", "_meta": {REASON_KEY: reason}}
    question |= {} if key is None else {"key": key}
    result = await job.call(f"{server.name}.{ASK_USER}", question)
    if result.error is not None:
        return {"action": "decline" if result.error.error_class in REFUSALS else "cancel"}
    if "url" in question:
        return {"action": "accept"}
    answer = object_of(result.structured_content).get("answer")
    return {"action": "accept", "content": object_of(answer)}


def _question(params: JsonObject) -> tuple[JsonObject, str | None]:
    """Return the input of the tool for questions, and the reason for which the user is not asked, or None."""
    message, url, schema = params.get("message"), params.get("url"), params.get("requestedSchema")
    question: JsonObject = {"message": message if isinstance(message, str) else ""}
    if params.get("mode") == "url" or isinstance(url, str):
        fault = auth_url_error(str(url), allows_http=True)
        return {**question, "url": str(url)}, None if fault is None else f"its URL: {fault}"
    form: JsonObject = schema if isinstance(schema, dict) else {"type": "object"}
    secret = secret_field(form)
    asked: JsonObject = {**question, "schema": form, "answer": _defaults(form)}
    return asked, None if secret is None else f"its form asks for {secret!r}"


def secret_field(form: JsonObject) -> str | None:
    """Return a field of a form that asks for a secret, which forms must not do; None if there is none.

    The labels of a field are its name, its title, and a short description. A field with fixed choices cannot contain a
    secret.
    """
    for name, each in object_of(form.get("properties")).items():
        field = object_of(each)
        if field.get("type") == "boolean" or {"enum", "oneOf", "const"} & field.keys():
            continue
        title, description = field.get("title"), _words(field.get("description"))
        labels = [_words(name), _words(title), description if len(description) <= _MAX_LABEL_WORDS else []]
        if field.get("format") == "password" or any(_SECRET.search(" ".join(words)) for words in labels):
            return name
    return None


def _words(label: Json) -> list[str]:
    """Return the words of a label in lower case: `cardPin`, `card_pin` and `Card PIN` have the same two."""
    return [each.lower() for each in _WORD.findall(label)] if isinstance(label, str) else []


def _defaults(form: JsonObject) -> JsonObject:
    fields = ((name, object_of(each)) for name, each in object_of(form.get("properties")).items())
    return {name: field["default"] for name, field in fields if "default" in field}
