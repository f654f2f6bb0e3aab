"""Decide recorded calls again with other rules, as far as the journal and the tools' declarations allow it."""

from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import NamedTuple, cast

import msgspec

from agenttool.adapters.python.source import Tool, declared
from agenttool.config import Config
from agenttool.history.recorded_call import walk_journal
from agenttool.journal import steps
from agenttool.journal.projection import invocation_of, records_of
from agenttool.policy.decide import NO_APPROVER, Policy
from agenttool.policy.fields import MatchingField, texts_in, values_at
from agenttool.policy.matching import matches
from agenttool.policy.rules import ArgumentTest, Rule
from agenttool.policy.subject import EffectFacts, Subject, subject_of
from agenttool.policy.targets import Caller, CallTargets
from agenttool.policy.verdict import Verdict, Weight
from agenttool.policy.votes import ExternalVote, HookVote, PermissionMode
from agenttool.ports.facts import Fact
from agenttool.records import (
    Behavior,
    InputContract,
    Json,
    JsonObject,
    Lifecycle,
    NonInteractivePrompt,
    PermissionDecision,
    PermissionProfile,
    PermissionProfileId,
    RiskLevel,
    ToolDeclaration,
    ToolHook,
    ToolId,
    ToolInvocation,
    ToolKind,
    UnsetType,
    complete_interface,
    complete_profile,
)
from agenttool.results.redaction import MARKER
from agenttool.stores.sqlite.reader import SqliteReader

UNKNOWN = "unknown"

STRICTEST = EffectFacts()
MOST_HARMLESS = EffectFacts(is_read_only=True, is_destructive=False, is_open_world=False)

# Earlier versions recorded the second text.
_NOT_INTERACTIVE = (NO_APPROVER, "no approver can be asked")
"""The message of a decision that was made without a user begins so."""

_FACTS_MISSING = "no rule matches, and the journal does not hold the tool's facts; name its module with --from"
_FACTS_DECIDED = "no rule matches, so the tool's facts decide, as they did"
_COMPUTED_FACTS = frozenset({"is_read_only", "is_destructive", "is_open_world"})


@dataclass(frozen=True, slots=True, kw_only=True)
class DecidedCall:
    """A recorded call about which rules decided.

    Attributes:
        decision: the decision of the rules, not an approver's answer to it.
        answer: the approver's answer, if the rules asked and one was given.
        arguments: the input that was judged; sensitive values are redacted.
    """

    invocation: ToolInvocation
    decision: PermissionDecision
    answer: PermissionDecision | None
    arguments: Json
    hook_votes: tuple[HookVote, ...]
    external_votes: tuple[ExternalVote, ...]

    @property
    def facts(self) -> EffectFacts | None:
        """The facts of the call, if they were recorded."""
        recorded = self.invocation.scheduler
        if recorded is None or None in (recorded.is_read_only, recorded.is_destructive, recorded.is_open_world):
            return None
        return EffectFacts(
            is_read_only=bool(recorded.is_read_only),
            is_destructive=recorded.is_destructive is not False,
            is_open_world=recorded.is_open_world is not False,
        )

    @property
    def interactive(self) -> bool:
        """Whether a user could be asked."""
        reason = self.decision.reason
        return reason is None or not (reason.message or "").startswith(_NOT_INTERACTIVE)

    @property
    def was_decided_by_facts(self) -> bool:
        """Whether the mode and the tool's facts decided, and no rule, hook or classifier."""
        return self.decision.source in ("mode", "permission_profile", "default") and not self.decision.rule_refs


def decided_calls(
    reader: SqliteReader, tools: "ReplayTools", *, since_ns: int | None = None, until_ns: int | None = None
) -> Iterator[DecidedCall | None]:
    """Yield every call of a time about which rules decided, and none for every other; register the names of tools."""
    for _, fact, call in walk_journal(reader):
        if fact.step is steps.DECLARED and isinstance(fact.data, dict):
            tools.add_name(str(fact.data.get("tool_id")), str(fact.data.get("name")))
        if call and (since_ns or 0) <= fact.at_ns and (until_ns is None or fact.at_ns < until_ns):
            yield _decided_call(call)


def _decided_call(facts: Sequence[Fact]) -> DecidedCall | None:
    invocation = invocation_of(facts)
    records = tuple(records_of(facts))
    decisions = [each for each in records if isinstance(each, PermissionDecision)]
    by_rules = [each for each in decisions if each.answers is None]
    if invocation is None or not by_rules or isinstance(invocation.permission_input, UnsetType):
        return None
    return DecidedCall(
        invocation=invocation,
        decision=by_rules[-1],
        answer=next((each for each in decisions if each.answers == by_rules[-1].decision_id), None),
        arguments=invocation.permission_input,
        hook_votes=tuple(vote for each in records if isinstance(each, ToolHook) for vote in _hook_votes(each)),
        external_votes=tuple(_external_votes(by_rules[-1])),
    )


def _hook_votes(hook: ToolHook) -> Iterator[HookVote]:
    behavior = (hook.permission_result or {}).get("behavior")
    if behavior in list(Behavior):
        yield HookVote(hook=hook.name or "", hook_ref=hook.hook_id, behavior=Behavior(cast("str", behavior)))


def _external_votes(decision: PermissionDecision) -> Iterator[ExternalVote]:
    """Yield the recorded votes of classifiers and engines; one that cannot be parsed is left out."""
    recorded = ((decision.reason and decision.reason.details) or {}).get("opinions")
    for each in recorded if isinstance(recorded, list) else ():
        with suppress(msgspec.ValidationError):
            yield msgspec.convert(each, ExternalVote)


class KnownTool(NamedTuple):
    """A tool, as far as it is known.

    Attributes:
        readings: one subject and its facts if all is known; otherwise the strictest and the most harmless.
        is_declared: whether the tool's own records are available.
    """

    readings: tuple[tuple[Subject, EffectFacts | None], ...]
    is_declared: bool


class ReplayTools:
    """All tools of a journal: from their declarations where a module has them, else from recorded calls."""

    def __init__(self, tools: Iterable[Tool]) -> None:
        self._names: dict[str, str] = {}
        self._declared: dict[str, Subject] = {}
        for tool in map(declared, tools):
            self._declared[tool.declaration.tool_id] = subject_of(
                tool.declaration,
                complete_interface(tool.interface),
                complete_profile(tool.execution_profile),
                tool.permission_profile,
            )

    def add_name(self, tool_id: str, name: str) -> None:
        """Register the name under which a tool was declared."""
        self._names[tool_id] = name

    def name_of(self, tool_id: str) -> str:
        """Return the qualified name of a tool."""
        return self._names.get(tool_id) or tool_id.removeprefix("tool_")

    def find(self, tool_id: str, arguments: Json, facts: EffectFacts | None) -> KnownTool:
        """Return what is known of the tool of one call with these arguments and recorded facts."""
        subject = self._declared.get(tool_id)
        if subject is not None:
            readings = (facts,) if facts is not None or not subject.computed else (STRICTEST, MOST_HARMLESS)
            return KnownTool(tuple((subject, each) for each in readings), is_declared=True)
        names = frozenset(arguments) if isinstance(arguments, dict) else frozenset[str]()
        strict, harmless = _recorded_tool(tool_id, self.name_of(tool_id), names)
        readings = ((strict, facts or STRICTEST), (harmless, facts or MOST_HARMLESS))
        return KnownTool(readings, is_declared=False)


@lru_cache(maxsize=1024)
def _recorded_tool(tool_id: str, qualified_name: str, arguments: frozenset[str]) -> tuple[Subject, Subject]:
    """Return the strictest and the most harmless tool that fit what the journal holds.

    The journal holds the name of the tool and of its arguments. It lacks the kind, aliases, native identities, schemas,
    effects, risk and digest. Only what is decided the same for both tools is known.
    """
    namespace, _, name = qualified_name.rpartition(".")
    schema: JsonObject = {"properties": {argument: {} for argument in sorted(arguments)}}
    declaration = ToolDeclaration(
        tool_id=ToolId(tool_id),
        namespace=namespace,
        name=name,
        description="known from the journal only",
        lifecycle=Lifecycle.AVAILABLE,
        tool_kind=ToolKind.FUNCTION,
        input_contract=InputContract(model_input_schema=schema),
    )
    profile = PermissionProfile(
        permission_profile_id=PermissionProfileId(f"imagined:{tool_id}"),
        risk_level=RiskLevel.LOW,
        approval_required=False,
        non_interactive_prompt=NonInteractivePrompt.AVOID,
    )
    strict, harmless = subject_of(declaration), subject_of(declaration, permission_profile=profile)
    return replace(strict, computed=_COMPUTED_FACTS), replace(harmless, computed=_COMPUTED_FACTS, is_own_code=True)


def uncertain_rules(policy: Policy, tool: KnownTool, arguments: Json, caller: Caller) -> list[tuple[Rule, str]]:
    """Return the rules that match what is recorded of a call and also test what is not, each with the missing part."""
    subject = tool.readings[0][0]
    call = CallTargets(subject, arguments, policy.workspace, caller)
    redacted = tuple(_redacted_fields(subject, arguments))
    found: list[tuple[Rule, str]] = []
    for rule in policy.book:
        visible: dict[str, tuple[ArgumentTest, ...] | None] = {}
        hidden: list[str] = []
        unrecorded = {"its kind": rule.kinds, "its native id": rule.operations, "its digest": rule.declaration_digest}
        if not tool.is_declared:
            hidden += [f"{what}, which is not in the journal" for what, given in unrecorded.items() if given]
            visible |= {"kinds": (), "operations": (), "declaration_digest": None}
        if redacted and (rule.paths or rule.commands or rule.urls or rule.resources):
            hidden += [f"{where}, which is redacted" for where in redacted]
            visible |= {"paths": (), "commands": (), "urls": (), "resources": ()}
        tests = [each for each in rule.arguments if _is_redacted(arguments, each.steps)]
        if tests:
            hidden += [f"{each.pointer}, which is redacted" for each in tests]
            visible["arguments"] = tuple(each for each in rule.arguments if each not in tests)
        if hidden and matches(replace(rule, **visible), call):
            found.append((rule, hidden[0]))
    return found


def _redacted_fields(subject: Subject, arguments: Json) -> Iterator[str]:
    """Yield the redacted arguments that rules on paths, commands, URLs or resources look at."""
    for each in MatchingField:
        places = ((),) if each in subject.fields.anywhere else subject.fields.places.get(each, ())
        yield from ("/" + "/".join(path) for path in places if _is_redacted(arguments, path))


def _is_redacted(arguments: Json, path: tuple[str, ...]) -> bool:
    """Return whether the value at a path, or a value that contains it, is redacted."""
    around = (value for depth in range(len(path)) for value in values_at(arguments, path[:depth]))
    return any(value == MARKER for value in around) or any(
        MARKER in text for value in values_at(arguments, path) for text in texts_in(value)
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplayOutcome:
    """What would have been decided about one call, beside what was."""

    call: DecidedCall
    tool: str
    was: str
    would: str
    because: str
    rule_refs: tuple[str, ...] = ()

    @property
    def short_reason(self) -> str:
        """The rules that decide; without any, the reason."""
        return ", ".join(self.rule_refs) or self.because

    @property
    def differs(self) -> bool:
        """Whether the decision is known and different."""
        return self.would not in (self.was, UNKNOWN)


class PolicyReplay:
    """Decides recorded calls with the rules of a settings file.

    Mode and interactivity are as recorded, unless the file sets them. The rules of a sub-agent's parent, and rules that
    a user added for a session, are not replayed.
    """

    def __init__(self, settings: Config, policy: Policy, tools: ReplayTools) -> None:
        """Use the policy that a runtime makes of the file, and the tools."""
        self._settings = settings
        self._policy = policy
        self._tools = tools

    def decide(self, call: DecidedCall) -> ReplayOutcome:
        """Return what the file would have decided about one call."""
        mode = self._settings.mode or call.decision.mode or PermissionMode.DEFAULT
        interactive = call.interactive if self._settings.interactive is None else self._settings.interactive
        tool = self._tools.find(call.invocation.tool_id, call.arguments, call.facts)
        actor, roles = call.invocation.actor_ref, call.invocation.actor_roles
        uncertain = uncertain_rules(self._policy, tool, call.arguments, self._policy.groups.caller(actor, roles))
        uncertain_refs = tuple(rule.ref for rule, _ in uncertain)
        policy = self._policy_without(uncertain_refs, PermissionMode(mode), interactive=interactive)
        verdicts = [
            policy.decide(
                subject,
                call.arguments,
                now=call.decision.decided_at,
                actor=actor,
                actor_roles=roles,
                facts=facts,
                hook_votes=call.hook_votes,
                external_votes=call.external_votes,
            )
            for subject, facts in tool.readings
        ]
        rules = [rule for rule, _ in uncertain]
        possible = {each for verdict in verdicts for each in _possible(verdict, rules, interactive=interactive)}
        name, was = self._tools.name_of(call.invocation.tool_id), call.decision.behavior.value
        would, because, refs = UNKNOWN, _FACTS_MISSING, ()
        if len(possible) == 1:
            would, because, refs = next(iter(possible)).value, verdicts[0].reason.message or "", verdicts[0].rule_refs
        elif uncertain:
            because = f"{uncertain[0][0].ref} looks at {uncertain[0][1]}"
        elif call.was_decided_by_facts and mode == call.decision.mode and call.decision.behavior in possible:
            would, because = was, _FACTS_DECIDED
        return ReplayOutcome(call=call, tool=name, was=was, would=would, because=because, rule_refs=refs)

    @lru_cache(maxsize=1024)  # noqa: B019 -- policies cache tools, so each is made once
    def _policy_without(self, left_out: tuple[str, ...], mode: PermissionMode, *, interactive: bool) -> Policy:
        """Return the policy without some rules."""
        return replace(self._policy, book=self._policy.book.without(*left_out), mode=mode, interactive=interactive)


def _possible(verdict: Verdict, uncertain: list[Rule], *, interactive: bool) -> Iterator[Behavior]:
    """Yield what may have been decided, whichever uncertain rules match: the strictest rule wins."""
    yield verdict.behavior
    for each in uncertain:
        weight = {Behavior.DENY: Weight.DENY, Behavior.ASK: Weight.ASK}.get(each.behavior, Weight.ALLOW)
        if weight < verdict.weight:
            yield each.behavior if interactive or each.behavior is not Behavior.ASK else Behavior.DENY
