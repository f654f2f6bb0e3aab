"""The permission mode: what is decided when no rule speaks, and what no rule can loosen."""

from collections.abc import Iterable

from agenttool.policy.call import Call
from agenttool.policy.field_names import MatchingField
from agenttool.policy.paths import is_inside
from agenttool.policy.subject import Facts, Subject
from agenttool.policy.verdict import BELOW_RULES, Voice, Weight
from agenttool.records import AccessKind, OpenEnum, Reason, ReasonType, RiskLevel, WriteEffect


class PermissionMode(OpenEnum):
    """How much goes without asking. Whether anybody can be asked is a flag beside the mode, not a mode.

    In every mode rules, hooks and opinions are heard, and a call that nobody speaks for is asked about. A mode that is
    not listed here lets nothing run.
    """

    DEFAULT = "default"
    """Only calls whose own records call them harmless in every respect go unasked, and only inside the workspace."""
    ACCEPT_EDITS = "accept_edits"
    """As the default; and changes to files of the workspace go unasked, where the tool does nothing else."""
    READ_ONLY = "read_only"
    """As the default; and whatever is not declared to be read-only is denied, whatever a rule says."""


_EDITS = frozenset({AccessKind.FILE_READ, AccessKind.FILE_WRITE})
_LOCAL = frozenset({WriteEffect.NONE, WriteEffect.LOCAL_DRAFT, WriteEffect.LOCAL_PERSISTENT})


def mode_denies(mode: PermissionMode, facts: Facts) -> str | None:
    """Say why a mode forbids a call; nothing if it does not."""
    if not mode.is_listed:
        return f"the permission mode {str(mode)!r} is not known, so nothing runs in it; use one of {_listed()}"
    if mode == PermissionMode.READ_ONLY and (facts.is_destructive or not facts.is_read_only):
        return "the mode is read_only and the tool is not declared to be read-only; change the mode to run it"
    return None


def _listed() -> str:
    return ", ".join(PermissionMode)


def looks_at_paths(mode: PermissionMode, subject: Subject, facts: Facts) -> bool:
    """Tell whether what a mode says depends on the arguments of a call."""
    may_touch_files = _touches_files(subject) or subject.fields.is_open
    return (_is_harmless(subject, facts) or _is_edit(mode, subject, facts)) and may_touch_files


def mode_allows(mode: PermissionMode, subject: Subject, facts: Facts, call: Call | None) -> Voice | None:
    """Speak for a call that goes unasked in a mode, or say which path is the reason that it does not."""
    if _is_edit(mode, subject, facts):
        weight, why = Weight.ALLOW_EDIT, f"the mode {str(mode)!r} accepts changes to files of the workspace"
    elif _is_harmless(subject, facts):
        weight, why = Weight.ALLOW_HINT, "the tool is declared to be harmless: read-only, closed, low risk, no approval"
    else:
        return None
    if _touches_files(subject) or (call is not None and call.paths):
        outside = _outside(call)
        if outside is not None:
            path = None if subject.hides_fields else outside
            message = f"{'a path that is sensitive' if path is None else repr(path)} is not surely inside the workspace"
            return _speak(Weight.ASK_ANYONE, ReasonType.WORKING_DIR, message, path)
    return _speak(weight, ReasonType.MODE, why)


def _speak(weight: Weight, reason: ReasonType, message: str, path: str | None = None) -> Voice:
    return Voice(
        weight=weight,
        authority=(BELOW_RULES, "mode"),
        source="mode",
        reason=Reason(type=reason, message=message),
        blocked_path=path,
    )


def _outside(call: Call | None) -> str | None:
    """Give the first path that is not surely inside the workspace; a call without a path is nowhere to be found."""
    if call is None or not call.paths or not call.is_sure_of(MatchingField.PATH):
        return "a path that is not given"
    return next((place.text for place in call.paths if not is_inside(place, call.workspace)), None)


def _is_harmless(subject: Subject, facts: Facts) -> bool:
    effects: Iterable[WriteEffect] = subject.write_effects or ()
    access = frozenset(subject.access_kinds or ())
    return (
        subject.approval_required is False
        and subject.risk == RiskLevel.LOW
        and facts == Facts(is_read_only=True, is_destructive=False, is_open_world=False)
        and all(effect.is_harmless for effect in effects)
        and access <= {AccessKind.FILE_READ}
        and not subject.fields.has_commands
    )


def _is_edit(mode: PermissionMode, subject: Subject, facts: Facts) -> bool:
    access, effects = frozenset(subject.access_kinds or ()), frozenset(subject.write_effects or ())
    return (
        mode == PermissionMode.ACCEPT_EDITS
        and AccessKind.FILE_WRITE in access
        and access <= _EDITS
        and bool(effects)
        and effects <= _LOCAL
        and not facts.is_open_world
        and not subject.fields.has_commands
    )


def _touches_files(subject: Subject) -> bool:
    return subject.fields.has(MatchingField.PATH) or bool(_EDITS & frozenset(subject.access_kinds or ()))
