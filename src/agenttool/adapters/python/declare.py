"""Declare a Python function as a tool, from its signature and the options of its author."""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Generic, ParamSpec, TypeVar, Unpack, cast, overload

from agenttool.adapters.python.composite import acts_only_by_calls
from agenttool.adapters.python.context import Context
from agenttool.adapters.python.execute import FunctionExecutor
from agenttool.adapters.python.options import ToolOptions, check_options, check_sensitive_fields
from agenttool.errors import ConfigError, ToolFailure
from agenttool.ports.limits import RateLimit
from agenttool.ports.tool import Check, DeclaredTool, Locks, Normalize
from agenttool.records import (
    UNSET,
    AccessKind,
    ContextModifierPolicy,
    ExecutionKind,
    ExecutionProfile,
    ExecutionProfileId,
    FunctionMapping,
    InputContract,
    InterfaceId,
    InterruptBehavior,
    Json,
    JsonObject,
    Lifecycle,
    OutputContract,
    PermissionProfile,
    PermissionProfileId,
    RiskLevel,
    ToolDeclaration,
    ToolId,
    ToolInterface,
    ToolKind,
    WriteEffect,
)
from agenttool.schema.compile import Checker, check_examples, compile_schema, is_plain
from agenttool.schema.markers import CommandArg, Internal, PathArg, Sensitive, UrlArg
from agenttool.schema.signature import FunctionKind, Signature, signature_of
from agenttool.schema.signature.conversion import PydanticConversion, invalid_arguments
from agenttool.schema.traverse import members

_P = ParamSpec("_P")
_R = TypeVar("_R")

DEFAULT_NAMESPACE = "local"

_NAME = re.compile(r"[\w-]{1,128}")
_NAMESPACE = re.compile(r"[\w-]+(\.[\w-]+)*")


class FunctionTool(Generic[_P, _R]):
    """A function that is also a tool: call it as before, or pass it to a runtime."""

    def __init__(self, function: Callable[_P, _R], options: ToolOptions) -> None:
        self.function = function
        self.declared = declare_function(function, options)
        self.__doc__ = function.__doc__
        self.__name__ = getattr(function, "__name__", self.declared.declaration.name)

    def __repr__(self) -> str:
        """Return the qualified name of the tool."""
        return repr(self.declared)

    def __call__(self, *arguments: _P.args, **keywords: _P.kwargs) -> _R:
        """Call the function directly, without permissions or records, as in a unit test."""
        return self.function(*arguments, **keywords)


@overload
def tool(function: Callable[_P, _R], /) -> FunctionTool[_P, _R]: ...
@overload
def tool(**options: Unpack[ToolOptions]) -> Callable[[Callable[_P, _R]], FunctionTool[_P, _R]]: ...
def tool(  # noqa: PLR0913 -- the options of a tool, each with a default
    function: Callable[_P, _R] | None = None,
    /,
    *,
    name: str | None = None,
    namespace: str | None = None,
    title: str | None = None,
    description: str | None = None,
    aliases: Sequence[str] | None = None,
    search_hint: str | None = None,
    examples: Sequence[dict[str, object]] | None = None,
    read_only: bool | None = None,
    destructive: bool | None = None,
    open_world: bool | None = None,
    concurrency_safe: bool | None = None,
    idempotent: bool | None = None,
    risk: RiskLevel | None = None,
    access: Sequence[AccessKind] | None = None,
    write_effects: Sequence[WriteEffect] | None = None,
    approval_required: bool | None = None,
    approval_reason: str | None = None,
    requires_user_interaction: bool | None = None,
    sensitive: Sequence[str] | None = None,
    credentials: Sequence[str] | None = None,
    gates: Sequence[str] | None = None,
    model_requirements: Sequence[str] | None = None,
    check: Check | None = None,
    normalize: Normalize | None = None,
    coerce: bool | None = None,
    locks: Locks | None = None,
    rate_limit: RateLimit | None = None,
    timeout_s: float | None = None,
    idle_timeout_s: float | None = None,
    interrupt_behavior: InterruptBehavior | None = None,
    changes_context: bool | None = None,
    max_inline_chars: int | None = None,
    artifacts: bool | None = None,
    background: bool | None = None,
    should_defer: bool | None = None,
    always_load: bool | None = None,
    kind: ToolKind | None = None,
    lifecycle: Lifecycle | None = None,
) -> FunctionTool[_P, _R] | Callable[[Callable[_P, _R]], FunctionTool[_P, _R]]:
    """Declare a function as a tool: `@tool`, or `@tool(namespace="files", read_only=True)`.

    A fact that is not declared takes its strict default: the call may write, destroy, reach an open world, and must
    run alone.

    Args:
        function: the function; its annotations make the schema, its docstring the description.
        name: the name of the tool. Default: that of the function.
        namespace: the group of its qualified name `namespace.name`. Default: `local`.
        title: the name for people. Default: the name as words.
        description: what it does and when to use it. Default: the docstring, else the title.
        aliases: other names by which it can be called.
        search_hint: words by which a search finds it, besides its name and description.
        examples: valid inputs, as objects.
        read_only: it changes nothing. Such a function runs without a question.
        destructive: it may destroy data. Default: no if it only reads, else yes.
        open_world: it reaches systems that its owner does not control, such as the web.
        concurrency_safe: its calls may run beside others.
        idempotent: repeating a call has no further effect, so it may be retried.
        risk: `low`, `medium`, `high` or `critical`. Default: low if it only reads, else medium.
        access: what it accesses, such as `file_read` or `network`.
        write_effects: where its changes last, such as `local_persistent` or `remote_mutation`.
        approval_required: a call needs an approval unless a rule allows it.
        approval_reason: why; approvers read it.
        requires_user_interaction: it needs a user who is present. With `approval_required`, no rule replaces the user.
        sensitive: names of input fields whose values no record shows; `Sensitive` marks a parameter.
        credentials: the names of credentials that it needs.
        gates: the feature gates that must be open.
        model_requirements: what the model must support, such as `image`.
        check: a function that gets the input and raises if the tool cannot accept it.
        normalize: a function that returns the input in its normal form.
        coerce: accept numbers and booleans that are written as text, such as `"2"` for an integer.
        locks: a function that returns the resources that a call locks.
        rate_limit: how often it may be called.
        timeout_s: how long a call may take, in seconds.
        idle_timeout_s: how long a call may take without progress.
        interrupt_behavior: whether a running call is canceled when the user interrupts: `cancel` or `block`.
        changes_context: it may change the context that calls share.
        max_inline_chars: a longer output is stored, and the model gets a preview.
        artifacts: it produces files or other artifacts.
        background: it takes long, so a client that can follow a task gets one at once.
        should_defer: models must search for it first.
        always_load: it is never deferred.
        kind: its kind, such as `shell_command`. Default: `function`.
        lifecycle: such as `deprecated` or `disabled`. Default: `available`.

    Raises:
        ConfigError: its signature cannot be a tool's, or an option contradicts it.
    """
    given = {option: value for option, value in locals().items() if option != "function" and value is not None}
    options = cast("ToolOptions", given)
    if function is not None:
        return FunctionTool(function, options)
    return lambda decorated: FunctionTool(decorated, options)


def declare_function(function: Callable[..., object], options: ToolOptions) -> DeclaredTool:
    """Return the declaration of a function.

    Raises:
        ConfigError: its signature cannot be a tool's, it has no description, or an option is invalid.
    """
    return declare_signature(function, signature_of(function, context_type=Context), options)


def declare_signature(function: Callable[..., object], signature: Signature, options: ToolOptions) -> DeclaredTool:
    """Return the declaration of a function whose signature is known.

    Raises:
        ConfigError: an option is invalid, or contradicts the signature.
    """
    check_options(options, signature.name)
    normalize = options.get("normalize")
    executor = FunctionExecutor(function, signature)
    if options.get("coerce"):
        normalize = coercing(signature.model_input_schema, normalize)
        signature = replace(signature, model_input_schema=lenient_schema(signature.model_input_schema))
    name, namespace = options.get("name", signature.name), options.get("namespace", DEFAULT_NAMESPACE)
    if not _NAME.fullmatch(name) or not _NAMESPACE.fullmatch(namespace):
        raise ConfigError(f"a tool may not be named {namespace!r}.{name!r}; use letters, digits, '_' and '-'")
    tool_id = ToolId(f"tool_{namespace}.{name}")
    return DeclaredTool(
        declaration=_declaration(signature, options, tool_id, name, namespace),
        interface=_interface(signature, options, tool_id),
        execution_profile=_execution_profile(
            signature, options, tool_id, is_composite=_is_composite(function, signature)
        ),
        permission_profile=_permission_profile(signature, options, tool_id),
        executor=executor,
        integer_fields=signature.integer_fields,
        secret_defaults=signature.secret_defaults,
        fill_nested=None if signature.nested_defaults is None else signature.nested_defaults.fill,
        convert=signature.arguments if signature.can_reject else None,
        check_values=options.get("check"),
        normalize=normalize,
        validated=signature.normal_form,
        locks=options.get("locks"),
        rate_limit=options.get("rate_limit"),
        copies_input=True,
        output_check=signature.output_check,
    )


def _declaration(
    signature: Signature, options: ToolOptions, tool_id: ToolId, name: str, namespace: str
) -> ToolDeclaration:
    description = options.get("description") or signature.description or signature.title or name
    sensitive = (*signature.fields[Sensitive], *options.get("sensitive", ()))
    schema = signature.runtime_input_schema or signature.model_input_schema
    if named := options.get("sensitive"):
        check_sensitive_fields(named, schema, name)
    examples = tuple(cast("list[Json]", list(options.get("examples", ()))))
    if examples or not is_plain(signature.model_input_schema):
        check_examples(examples, compile_schema(signature.model_input_schema), name)
    return ToolDeclaration(
        tool_id=tool_id,
        namespace=namespace,
        name=name,
        aliases=tuple(options["aliases"]) if "aliases" in options else None,
        search_hint=options.get("search_hint"),
        title=options.get("title", signature.title),
        description=description,
        lifecycle=options.get("lifecycle", Lifecycle.AVAILABLE),
        tool_kind=options.get("kind", ToolKind.FUNCTION),
        input_contract=InputContract(
            model_input_schema=signature.model_input_schema,
            runtime_input_schema=signature.runtime_input_schema,
            strict=True,
            defaults=signature.defaults or None,
            examples=examples or None,
            sensitive_fields=sensitive or None,
            internal_only_fields=signature.fields[Internal] or None,
        ),
        output_contract=OutputContract(structured_schema=signature.output_schema) if signature.output_schema else None,
        external_mappings=(FunctionMapping(function_name=signature.name),),
    )


def _interface(signature: Signature, options: ToolOptions, tool_id: ToolId) -> ToolInterface:
    timeout = options.get("timeout_s")
    commands = signature.fields[CommandArg]
    is_judged = bool(commands) or options.get("kind", ToolKind.FUNCTION) != ToolKind.FUNCTION
    return ToolInterface(
        interface_id=InterfaceId(f"interface:{tool_id}"),
        tool_id=tool_id,
        is_read_only=options.get("read_only"),
        is_concurrency_safe=options.get("concurrency_safe"),
        is_destructive=options.get("destructive", False if options.get("read_only") else None),
        is_open_world=options.get("open_world"),
        classifier_input=f"input.{commands[0]}" if len(commands) == 1 else "input" if is_judged else UNSET,
        requires_user_interaction=options.get("requires_user_interaction"),
        interrupt_behavior=options.get("interrupt_behavior"),
        should_defer=options.get("should_defer"),
        always_load=options.get("always_load"),
        required_credentials=tuple(options["credentials"]) if "credentials" in options else None,
        feature_gate_refs=tuple(options["gates"]) if "gates" in options else None,
        model_requirements=[*options["model_requirements"]] if "model_requirements" in options else UNSET,
        max_inline_chars=options.get("max_inline_chars"),
        timeout_ms=None if timeout is None else round(timeout * 1000),
        context_modifier_policy=ContextModifierPolicy.ALLOW_SERIAL_ONLY if options.get("changes_context") else None,
    )


def _is_composite(function: Callable[..., object], signature: Signature) -> bool:
    """Return whether a function acts only by nested calls; converted and injected arguments could act, too."""
    has_plain_arguments = not isinstance(signature.arguments, PydanticConversion) and not signature.injected
    return signature.context_parameter is not None and has_plain_arguments and acts_only_by_calls(function)


def _execution_profile(
    signature: Signature, options: ToolOptions, tool_id: ToolId, *, is_composite: bool
) -> ExecutionProfile:
    yields = signature.kind in (FunctionKind.GENERATOR, FunctionKind.ASYNC_GENERATOR)
    idle = options.get("idle_timeout_s")
    return ExecutionProfile(
        execution_profile_id=ExecutionProfileId(f"execution:{tool_id}"),
        execution_kind=ExecutionKind.EMBEDDED_RUNTIME,
        supports_progress=yields or signature.context_parameter is not None,
        # A thread cannot be stopped. A result "canceled" would be wrong while the thread still writes.
        supports_cancel=signature.kind in (FunctionKind.COROUTINE, FunctionKind.ASYNC_GENERATOR),
        supports_timeout=True,
        supports_resume=options.get("idempotent", False) or is_composite,
        supports_retries=options.get("idempotent", False),
        supports_partial_results=yields,
        supports_background=options.get("background", False),
        supports_result_persistence=True,
        supports_artifacts=options.get("artifacts", False),
        sandboxed=False,
        supports_credential_delegation=bool(options.get("credentials")),
        supports_offline=True,
        supports_context_modifiers=options.get("changes_context", False),
        timeout_behavior=UNSET if idle is None else {"idle_timeout_ms": round(idle * 1000)},
    )


def _permission_profile(signature: Signature, options: ToolOptions, tool_id: ToolId) -> PermissionProfile:
    """Return the permission profile. A function that its owner declares read-only needs no approval."""
    matched = {"path": PathArg, "url": UrlArg, "command": CommandArg}
    only_reads = options.get("read_only", False)
    effects = options.get("write_effects", (WriteEffect.NONE,) if only_reads else ())
    return PermissionProfile(
        permission_profile_id=PermissionProfileId(f"permission:{tool_id}"),
        risk_level=options.get("risk", RiskLevel.LOW if only_reads else RiskLevel.MEDIUM),
        access_kinds=tuple(options["access"]) if "access" in options else None,
        write_effects=tuple(effects) or None,
        credential_refs=tuple(options.get("credentials", ())) or None,
        approval_required=options.get("approval_required", False if only_reads else None),
        approval_reason=options.get("approval_reason"),
        rule_matching_fields=tuple(name for name, marker in matched.items() if signature.fields[marker]) or None,
    )


_TEXTS: Mapping[str, JsonObject] = {
    "integer": {"type": "string", "pattern": r"^[-+]?[0-9]{1,18}$"},
    "number": {"type": "string", "pattern": r"^[-+]?[0-9]{1,18}(\.[0-9]{1,18})?$"},
    "boolean": {"enum": ["true", "false"]},
}
"""The texts that are converted, by the type of the field."""

_READ: Mapping[str, Callable[[str], Json]] = {"integer": int, "number": float, "boolean": "true".__eq__}


def lenient_schema(schema: JsonObject) -> JsonObject:
    """Return a schema whose number and boolean fields also accept text; a field keeps its description and default."""
    properties = {name: _lenient(field) for name, field in members(schema, "properties").items()}
    return {**schema, "properties": properties}


def _lenient(field: Json) -> Json:
    kind = _kind_of(field)
    if kind is None or not isinstance(field, dict):
        return field
    about = {name: field[name] for name in ("description", "default", "title") if name in field}
    strict = {name: value for name, value in field.items() if name not in about}
    return {**about, "anyOf": [strict, {**_TEXTS[kind]}]}


def _kind_of(field: Json) -> str | None:
    """Return the type of a number or boolean field, also of one that may be null; none for other fields."""
    if not isinstance(field, dict):
        return None
    kind, choices = field.get("type"), field.get("anyOf")
    if isinstance(choices, list):
        others = [each for each in choices if each != {"type": "null"}]
        return _kind_of(others[0]) if len(others) == 1 else None
    return kind if isinstance(kind, str) and kind in _TEXTS else None


def coercing(schema: JsonObject, normalize: Normalize | None) -> Normalize:
    """Return a function that converts the texts of number and boolean fields, and then normalizes as the author says.

    A converted value must fit the field as the author declared it. The change is recorded as any other normalization.
    """
    fields = members(schema, "properties")
    kinds = {name: kind for name, field in fields.items() if (kind := _kind_of(field)) is not None}
    strict = Checker({**schema, "properties": {name: fields[name] for name in kinds}, "required": []})

    def convert(given: JsonObject) -> JsonObject:
        texts = {name: value for name, value in given.items() if name in kinds and isinstance(value, str)}
        read: JsonObject = {name: _READ[kinds[name]](value) for name, value in texts.items()}
        if not strict.accepts(read):
            problems = [f"at {each.pointer!r}: expected {each.expected}" for each in strict.misfits(read)]
            raise ToolFailure(invalid_arguments(f"{'; '.join(problems)}; correct the arguments and call again"))
        converted = {**given, **read}
        return converted if normalize is None else normalize(converted)

    return convert
