"""Everyone who has a say about a call: rules, the mode, hooks, outside opinions, the tool itself."""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field

from agenttool.policy.call import Call
from agenttool.policy.match import Match, caught, covers, covers_around, covers_subcommand
from agenttool.policy.mode import PermissionMode, mode_allows, mode_denies
from agenttool.policy.opinions import HookHint, Opinion, OpinionKind, hooks_say
from agenttool.policy.rules import Rule
from agenttool.policy.subject import Facts, Subject
from agenttool.policy.verdict import BELOW_RULES, Voice, Weight
from agenttool.records import Behavior, Json, JsonObject, Reason, ReasonType, RuleSource

_WEIGHTS = {Behavior.DENY: Weight.DENY, Behavior.ASK: Weight.ASK, Behavior.ALLOW: Weight.ALLOW}
_VERBS = {Behavior.DENY: "denies", Behavior.ASK: "asks about", Behavior.ALLOW: "allows"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Hearing:
    """What is to be decided, and on what.

    Attributes:
        call: the arguments; nothing while only the tool itself is judged.
        rules: the rules that apply to the tool and are in force.
        notes: what the record should mention besides.
    """

    subject: Subject
    call: Call | None
    facts: Facts
    mode: PermissionMode
    interactive: bool
    rules: tuple[Rule, ...]
    hints: tuple[HookHint, ...] = ()
    opinions: tuple[Opinion, ...] = ()
    notes: JsonObject = field(default_factory=dict[str, Json])


def hear(hearing: Hearing) -> tuple[list[Voice], list[Rule]]:
    """Let everyone speak; give their voices, and the rules that somebody with more say has silenced."""
    voices, silenced = _bound_by_hooks(hearing, *_without_settled(_rule_voices(hearing)))
    voices += [_opinion_voice(opinion) for opinion in hearing.opinions if opinion.effect in _WEIGHTS]
    hint = hooks_say(hearing.hints)
    if hint is not None and hint.behavior in _WEIGHTS:
        weight = Weight.ALLOW_HINT if hint.behavior == Behavior.ALLOW else _WEIGHTS[hint.behavior]
        voices.append(_hook_voice(hint, weight))
    voices += _forbidden(hearing)
    if not any(voice.weight <= Weight.ALLOW for voice in voices):
        # Weaker voices are heard only where it can matter.
        voices += _tool_voices(hearing)
    return voices, silenced


def _rule_voices(hearing: Hearing) -> list[Voice]:
    rules = [rule for rule in hearing.rules if rule.hook is None]
    found = [_rule_voice(rule, match) for rule in rules if (match := _match(rule, hearing.call)) is not None]
    if hearing.call is not None and not any(voice.weight is Weight.ALLOW for voice in found):
        found += _together(rules, hearing.call)
    return found


def _match(rule: Rule, call: Call | None) -> Match | None:
    if not rule.reads_input:
        return Match()
    if call is None:
        return None
    if rule.behavior == Behavior.ALLOW:
        return Match() if covers(rule, call) else None
    return caught(rule, call)


def _rule_voice(rule: Rule, match: Match) -> Voice:
    what = match.what or "this call"
    because = "" if rule.because is None else f": {rule.because}"
    return Voice(
        weight=_WEIGHTS[rule.behavior],
        authority=rule.authority,
        source=rule.source,
        reason=Reason(
            type=ReasonType.RULE,
            message=f"rule {rule.ref!r} ({rule.origin}) {_VERBS[rule.behavior]} {what}{because}",
            rule_ref=rule.ref,
            rule_source=rule.source,
            policy_ref=rule.ref if rule.is_policy else None,
        ),
        rules=(rule,),
        policy_refs=(rule.ref,) if rule.is_policy else (),
        blocked_path=match.path,
    )


def _together(rules: Iterable[Rule], call: Call) -> Iterator[Voice]:
    """Let several allow rules cover a command line together: each of its commands by at least one of them."""
    able = [rule for rule in rules if rule.behavior == Behavior.ALLOW and rule.commands and covers_around(rule, call)]
    used: dict[str, Rule] = {}
    for subcommand in call.subcommands:
        rule = next((each for each in able if covers_subcommand(each, subcommand, call)), None)
        if rule is None:
            return
        used[rule.ref] = rule
    if used:
        first = min(used.values(), key=lambda rule: rule.authority)
        yield Voice(
            weight=Weight.ALLOW,
            authority=first.authority,
            source=first.source,
            reason=Reason(
                type=ReasonType.SUBCOMMAND_RESULTS,
                message=f"each command is allowed by one of the rules {', '.join(sorted(used))}",
                rule_ref=first.ref,
                rule_source=first.source,
            ),
            rules=tuple(used.values()),
        )


def _without_settled(voices: list[Voice]) -> tuple[list[Voice], list[Rule]]:
    """Leave out the asks that a person has answered for good; one of the policy layer is never settled."""
    settled = {
        ref
        for voice in voices
        for rule in voice.rules
        if rule.behavior == Behavior.ALLOW and rule.source == RuleSource.SESSION
        for ref in rule.settles
    }
    return _silence(voices, lambda rule: rule.behavior == Behavior.ASK and not rule.is_policy and rule.ref in settled)


def _bound_by_hooks(hearing: Hearing, voices: list[Voice], silenced: list[Rule]) -> tuple[list[Voice], list[Rule]]:
    """Let the allow of a hook stand against rules, if the policy layer said that this hook decides (AT-HOOK-15)."""
    allowing = {hint.hook: hint for hint in hearing.hints if hint.behavior == Behavior.ALLOW}
    binding = [
        rule
        for rule in hearing.rules
        if rule.hook in allowing and rule.is_policy and _match(rule, hearing.call) is not None
    ]
    if not binding:
        return voices, silenced
    rule = min(binding, key=lambda each: each.authority)
    left, more = _silence(voices, lambda each: each.behavior != Behavior.ALLOW and not each.is_policy)
    return [*left, _hook_voice(allowing[rule.hook or ""], Weight.ALLOW, rule)], [*silenced, *more]


def _silence(voices: list[Voice], is_beaten: Callable[[Rule], bool]) -> tuple[list[Voice], list[Rule]]:
    left = [voice for voice in voices if not any(is_beaten(rule) for rule in voice.rules)]
    return left, [rule for voice in voices if voice not in left for rule in voice.rules]


def _hook_voice(hint: HookHint, weight: Weight, rule: Rule | None = None) -> Voice:
    said = hint.message or f"hook {hint.hook!r} said {hint.behavior}"
    return Voice(
        weight=weight,
        authority=(BELOW_RULES + 1, hint.hook_ref),
        source=f"hook:{hint.hook}",
        reason=Reason(
            type=ReasonType.HOOK,
            message=said if rule is None else f"{said}; rule {rule.ref!r} ({rule.origin}) lets this hook decide",
            hook_ref=hint.hook_ref,
            policy_ref=None if rule is None else rule.ref,
        ),
        policy_refs=() if rule is None else (rule.ref,),
    )


def _opinion_voice(opinion: Opinion) -> Voice:
    is_engine = opinion.kind == OpinionKind.ENGINE
    said = opinion.reason or f"{opinion.kind} {opinion.ref!r} said {opinion.behavior or opinion.status}"
    return Voice(
        weight=_WEIGHTS[opinion.effect],
        # An engine speaks for the policy layer, so it is named right after that layer's own rules.
        authority=(0, f"~{opinion.ref}") if is_engine else (BELOW_RULES + 2, opinion.ref),
        source=f"{opinion.kind}:{opinion.ref}",
        reason=Reason(
            type=ReasonType.POLICY if is_engine else ReasonType.CLASSIFIER,
            message=said,
            policy_ref=opinion.ref if is_engine else None,
        ),
        policy_refs=(opinion.ref, *opinion.policy_refs) if is_engine else (),
        check=opinion.check,
    )


def _forbidden(hearing: Hearing) -> Iterator[Voice]:
    """Say what no rule can loosen."""
    why = mode_denies(hearing.mode, hearing.facts)
    if not hearing.interactive and hearing.subject.interface.requires_user_interaction:
        why = "the tool works only with a person present, and nobody can be asked"
    if why is not None:
        yield _plain_voice(Weight.DENY, "mode", ReasonType.MODE, why)


def _tool_voices(hearing: Hearing) -> Iterator[Voice]:
    """Let the tool's own records speak, and last of all the rule that a call nobody speaks for is asked about."""
    profile = hearing.subject.profile
    if profile is not None and profile.approval_required:
        why = profile.approval_reason or "the tool wants an approval for each call"
        yield _plain_voice(Weight.ASK_FOR_APPROVAL, "permission_profile", ReasonType.SAFETY_CHECK, why)
    if hearing.facts.is_destructive:
        why = "the call may destroy something; nobody declared that it does not"
        yield _plain_voice(Weight.ASK_ABOUT_HARM, "permission_profile", ReasonType.SAFETY_CHECK, why)
    allowed = mode_allows(hearing.mode, hearing.subject, hearing.facts, hearing.call)
    if allowed is not None:
        yield allowed
    yield _plain_voice(Weight.ASK_ANYONE, "default", ReasonType.OTHER, "nothing speaks for or against this call")


def _plain_voice(weight: Weight, source: str, reason: ReasonType, message: str) -> Voice:
    return Voice(
        weight=weight,
        authority=(BELOW_RULES + 3, source),
        source=source,
        reason=Reason(type=reason, message=message),
    )
