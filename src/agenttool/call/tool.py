"""The compiled form of a tool, and the caches of tools.

A tool is checked when it is declared and compiled on its first use. Compiling computes everything that does not depend
on a call, so that later calls need not.
"""

from collections.abc import Callable, Coroutine, Iterable, Mapping
from dataclasses import dataclass, field
from typing import cast

from agenttool.catalog.entry import Entry
from agenttool.codec import clone
from agenttool.errors import ConfigError, RecordError
from agenttool.hooks.definition import Hook, hooks_of
from agenttool.policy.subject import Subject, subject_of
from agenttool.ports.deferred import DeferredTool
from agenttool.ports.executor import Job
from agenttool.ports.limits import RateLimit
from agenttool.ports.tool import Check, Convert, DeclaredTool, FillDefaults, Normalize
from agenttool.records import (
    ContextModifierPolicy,
    ExecutionProfile,
    HookEvent,
    InputContract,
    Json,
    JsonObject,
    MutationPolicy,
    ToolId,
    complete_interface,
    complete_profile,
)
from agenttool.results.mapping_plan import MappingPlan, output_checker, plan_mapping
from agenttool.results.persistence import PersistencePolicy, policy_of
from agenttool.results.redaction import Redactor, compile_redactor
from agenttool.scheduler.call_facts import ToolSafety, safety_of
from agenttool.scheduler.rate_limits import TokenBucket
from agenttool.schema.compile import Checker, check_examples, compile_schema, is_costly, is_plain
from agenttool.schema.explain import pointer_of
from agenttool.schema.plain import TypedReader, typed_reader
from agenttool.schema.traverse import properties_of
from agenttool.schema.views import model_view

ANY_OBJECT: JsonObject = {"type": "object"}

MAX_MEMBER_LISTS = 64
"""For how many combinations of given members the missing defaults are cached."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Tool:
    """A tool that is ready to run. Its flags are computed once, so that calls need not.

    `DeclaredTool` describes the callables, such as `convert`, `validated` and `preflight`.

    Attributes:
        subject: what the policy needs to know of the tool.
        safety: computes the scheduling facts of a call; `safety.static` if all calls share them.
        later: how a deferred tool awaits its result; none if a run of the tool returns the result.
        read_typed: reads and checks an input of plain values at once; none if only the schema can check it.
        is_judged_by_call: a hook or a classifier votes on each call, besides the rules.
        prepares_input: one of the phases 3 to 5 has something to do.
        has_checks: phase 3 has something to do.
        has_normal_form: phase 4 has something to do.
        has_common_start: its calls share their scheduling facts, so the steps up to the start can be one fact.
        is_repeatable: a call may run again after a crash: it only reads, is idempotent, or acts only by nested calls.
        needs_run_loop: it has retries, a rate limit or credentials, or its result is deferred.
        defaults_by_members: the defaults that inputs with certain members leave out, and their pointers.
        inline_below: a result of at most this many characters is delivered inline; -1 if a hook must see it.
        credentials: the names of the credentials that its calls lease.
    """

    entry: Entry
    tool_id: ToolId
    name: str
    check_model: Checker
    check_runtime: Checker
    defaults: JsonObject
    fill_nested: FillDefaults | None
    convert: Convert | None
    check_values: Check | None
    preflight: Check | None
    normalize: Normalize | None
    validated: Normalize | None
    integer_fields: frozenset[str]
    internal_only: frozenset[str]
    mutation_policy: MutationPolicy
    redactor: Redactor | None
    hooks: dict[HookEvent, tuple[Hook, ...]]
    subject: Subject

    safety: ToolSafety
    shared_state: str | None
    start: Callable[[Job], Coroutine[object, object, object]]
    copies_input: bool
    supports_cancel: bool

    timeout_s: float | None
    idle_timeout_s: float | None
    supports_retries: bool
    is_repeatable: bool
    buckets: tuple[TokenBucket, ...]
    modifier_policy: ContextModifierPolicy | None
    mapping: MappingPlan
    persistence: PersistencePolicy
    read_typed: TypedReader | None
    prepares_input: bool
    has_checks: bool
    has_normal_form: bool
    has_common_start: bool
    is_judged_by_call: bool
    needs_run_loop: bool
    has_effects: bool
    has_pre_hooks: bool
    has_post_hooks: bool
    inline_below: int
    credentials: tuple[str, ...]
    later: DeferredTool | None
    defaults_by_members: dict[tuple[str, ...], tuple[JsonObject, tuple[str, ...]]] = field(
        init=False, default_factory=dict[tuple[str, ...], tuple[JsonObject, tuple[str, ...]]]
    )

    def with_integers(self, value: JsonObject) -> JsonObject:
        """Return an input in which integer fields that were written as `1.0` are integers."""
        if not self.integer_fields:
            return value
        return {name: _integral(each) if name in self.integer_fields else each for name, each in value.items()}

    def with_defaults(self, value: JsonObject) -> tuple[JsonObject, tuple[str, ...]]:
        """Return an input with the defaults that it leaves out on any level, and their pointers in order.

        It is the input itself if none is left out.
        """
        filled: list[str] = []
        if self.fill_nested is not None:
            value = cast("JsonObject", self.fill_nested(value, filled))
        if self.defaults.keys() <= value.keys():
            return value, tuple(sorted(filled))
        given = tuple(value)
        missing, pointers = self.defaults_by_members.get(given) or self._find_missing(given)
        return {**value, **clone(missing)}, tuple(sorted((*pointers, *filled))) if filled else pointers

    def _find_missing(self, given: tuple[str, ...]) -> tuple[JsonObject, tuple[str, ...]]:
        """Return the defaults of the members that are not given, and their pointers; cached for the next call."""
        values = {name: default for name, default in self.defaults.items() if name not in given}
        found = values, tuple([pointer_of((name,)) for name in sorted(values)])
        if len(self.defaults_by_members) < MAX_MEMBER_LISTS:
            self.defaults_by_members[given] = found
        return found


def refuse_unusable(entry: Entry) -> None:
    """Reject a declared tool that `compile_tool` could not compile.

    Raises:
        ConfigError: its records contradict each other, or a schema in them cannot be used.
    """
    declared, name = entry.tool, entry.qualified_name
    _refuse_untyped_parts(declared, name)
    contract = declared.declaration.input_contract or InputContract()
    model, runtime = _schemas_of(declared, contract)
    for schema in (model,) if runtime is model else (model, runtime):
        if not is_plain(schema):
            _refuse_unusable_schema(schema, name)
    if contract.examples:
        check_examples(contract.examples, compile_schema(model, formats=True), name)
    output_checker(declared.interface, declared.declaration.output_contract)


def _refuse_untyped_parts(declared: DeclaredTool, name: str) -> None:
    """Reject an invalid executor or rate limit, whose types no record checks."""
    if not callable(cast("object", getattr(declared.executor, "start", None))):
        raise ConfigError(f"{name!r} has an executor that cannot start, got {declared.executor!r}; give it an Executor")
    limit = cast("object", declared.rate_limit)
    if not (limit is None or isinstance(limit, RateLimit)):
        raise ConfigError(f"{name!r} must have a RateLimit or none, got {limit!r}; use RateLimit(per_second=…)")


def _refuse_unusable_schema(schema: JsonObject, name: str) -> None:
    if is_costly(schema):
        raise ConfigError(f"the input schema of {name!r} leads through too many references; simplify it")
    try:
        compile_schema(schema)
    except RecordError as error:
        raise ConfigError(f"the input schema of {name!r} cannot be used: {error}") from error


def model_schema_of(declared: DeclaredTool) -> JsonObject:
    """Return the input schema that a model may see."""
    return _schemas_of(declared, declared.declaration.input_contract or InputContract())[0]


def compile_tool(entry: Entry, subject: Subject, hooks: Iterable[Hook], source: TokenBucket | None = None) -> Tool:
    """Return the compiled tool; `source` is the rate limit of its namespace."""
    declared, interface = entry.tool, subject.interface
    profile = complete_profile(declared.execution_profile)
    contract = declared.declaration.input_contract or InputContract()
    model_schema, runtime_schema = _schemas_of(declared, contract)
    check_model, check_runtime = (compile_schema(each, formats=True) for each in (model_schema, runtime_schema))
    timeouts = [each for each in (interface.timeout_ms, profile.timeout_ms) if each is not None]
    safety = safety_of(
        interface,
        classifiers=declared.classifiers,
        locks=declared.locks,
        locks_by_actor=declared.locks_by_actor,
    )
    its_hooks = hooks_of(hooks, declared.declaration)
    persistence = policy_of(interface, declared.declaration.output_contract)
    redactor = compile_redactor(contract.sensitive_fields, (name for name, _ in properties_of(runtime_schema)))
    own = None if declared.rate_limit is None else TokenBucket(declared.rate_limit)
    buckets = tuple(each for each in (own, source) if each is not None)
    credentials = tuple(interface.required_credentials or ())
    has_checks = bool(declared.convert or declared.check_values or declared.preflight or credentials)
    defaults = dict(sorted({**declared.secret_defaults, **(contract.defaults or {})}.items()))
    has_normal_form = bool(defaults or declared.fill_nested or declared.normalize or declared.validated)
    has_pre_hooks = bool(its_hooks.get(HookEvent.PRE_TOOL_USE))
    return Tool(
        entry=entry,
        tool_id=entry.tool_id,
        name=entry.qualified_name,
        check_model=check_model,
        check_runtime=check_runtime,
        defaults=defaults,
        fill_nested=declared.fill_nested,
        convert=declared.convert,
        check_values=declared.check_values,
        preflight=declared.preflight,
        normalize=declared.normalize,
        validated=declared.validated,
        integer_fields=declared.integer_fields,
        internal_only=frozenset(contract.internal_only_fields or ()),
        mutation_policy=contract.mutation_policy or MutationPolicy(),
        redactor=redactor,
        hooks=its_hooks,
        subject=subject,
        safety=safety,
        shared_state=declared.shared_state,
        start=declared.executor.start,
        copies_input=declared.copies_input,
        supports_cancel=bool(profile.supports_cancel),
        timeout_s=min(timeouts) / 1000 if timeouts else None,
        idle_timeout_s=_idle_timeout_of(profile),
        supports_retries=profile.supports_retries is True,
        is_repeatable=interface.is_read_only is True
        or profile.supports_retries is True
        or (profile.supports_resume is True and declared.later is None),
        buckets=buckets,
        modifier_policy=interface.context_modifier_policy if profile.supports_context_modifiers else None,
        mapping=plan_mapping(
            interface,
            declared.declaration.output_contract,
            mapper=declared.map_result,
            output_check=declared.output_check,
            profile=profile,
            stored_above=persistence.stored_above,
        ),
        persistence=persistence,
        read_typed=None if contract.internal_only_fields else typed_reader(model_schema),
        prepares_input=has_checks or has_normal_form or has_pre_hooks,
        has_checks=has_checks,
        has_normal_form=has_normal_form,
        has_common_start=safety.static is not None,
        is_judged_by_call=bool(
            subject.computed
            or its_hooks.get(HookEvent.PERMISSION_REQUEST)
            or its_hooks.get(HookEvent.PERMISSION_DECISION)
        ),
        needs_run_loop=profile.supports_retries is True or bool(buckets or credentials) or declared.later is not None,
        has_effects=interface.is_read_only is not True,
        has_pre_hooks=has_pre_hooks,
        has_post_hooks=bool(its_hooks.get(HookEvent.POST_TOOL_USE) or its_hooks.get(HookEvent.POST_TOOL_USE_FAILURE)),
        inline_below=-1 if its_hooks.get(HookEvent.RESULT_PERSISTENCE) else persistence.inline_below,
        credentials=credentials,
        later=declared.later,
    )


def _integral(value: Json) -> Json:
    """Return a value in which every number that was written as `1.0` is an integer."""
    if isinstance(value, dict):
        return {name: _integral(each) for name, each in value.items()}
    if isinstance(value, list):
        return [_integral(each) for each in value]
    return int(value) if type(value) is float and value.is_integer() else value


def _idle_timeout_of(profile: ExecutionProfile) -> float | None:
    """Return how long the tool may run without progress; none if it has no limit."""
    behavior = profile.timeout_behavior
    limit = behavior.get("idle_timeout_ms") if isinstance(behavior, dict) else None
    return limit / 1000 if isinstance(limit, int | float) and limit > 0 else None


def _schemas_of(declared: DeclaredTool, contract: InputContract) -> tuple[JsonObject, JsonObject]:
    """Return the schemas for model and runtime; if both records have one, they must be equal (G-19)."""
    model = _one_of("model_input_schema", declared.interface.model_input_schema, contract.model_input_schema, declared)
    runtime = _one_of(
        "runtime_input_schema", declared.interface.runtime_input_schema, contract.runtime_input_schema, declared
    )
    model = model if model is not None else ANY_OBJECT
    internal = contract.internal_only_fields or ()
    return model_view(model, internal) if internal else model, runtime if runtime is not None else model


def _one_of(
    name: str, first: JsonObject | None, second: JsonObject | None, declared: DeclaredTool
) -> JsonObject | None:
    if first is not None and second is not None and first != second:
        raise ConfigError(
            f"{declared.declaration.name!r} has two different {name}, on its interface and its contract; keep one"
        )
    return first if first is not None else second


class Subjects(dict[Entry, Subject]):
    """The policy subject of each tool."""

    def __missing__(self, entry: Entry) -> Subject:
        """Create the subject from the tool's records; concurrent callers get the same one."""
        tool = entry.tool
        interface = complete_interface(tool.interface)
        found = subject_of(tool.declaration, interface, tool.execution_profile, tool.permission_profile)
        return self.setdefault(entry, found)


class Tools(dict[Entry, Tool]):
    """The compiled tools. A missing one is compiled once."""

    def __init__(self, hooks: tuple[Hook, ...] = (), sources: Mapping[str, TokenBucket] | None = None) -> None:
        """Use the hooks that may apply to tools, and the rate limits of namespaces."""
        super().__init__()
        self.subjects = Subjects()
        self._hooks = hooks
        self._namespace_limits = sources or {}

    def __missing__(self, entry: Entry) -> Tool:
        """Compile a tool; concurrent callers get the same one, because it holds its rate limit."""
        source = self._namespace_limits.get(entry.tool.declaration.namespace)
        return self.setdefault(entry, compile_tool(entry, self.subjects[entry], self._hooks, source))

    def admit(self, entry: Entry) -> None:
        """Check that a tool can be compiled later.

        Raises:
            ConfigError: its records contradict each other, or a schema in them cannot be used.
        """
        refuse_unusable(entry)
        if entry.tool.classifiers:
            self[entry]  # classifiers are code, so their errors are raised at declaration

    def forget(self, entry: Entry) -> None:
        """Remove a replaced tool; a surface that still has it compiles it again."""
        self.pop(entry, None)
        self.subjects.pop(entry, None)
