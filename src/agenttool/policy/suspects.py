"""Which of very many tools a policy may deny in any case: a quick no for most of them, before any is judged."""

import re
from collections.abc import Callable
from fnmatch import translate

from agenttool.policy.decide import Policy
from agenttool.policy.match import is_about
from agenttool.policy.mode import mode_denies
from agenttool.policy.subject import Facts, Subject
from agenttool.records import Behavior, ToolDeclaration

_NOTHING = r"(?!)"


Suspect = Callable[[ToolDeclaration, Callable[[], Subject]], bool]
"""Tells of a tool whether it is one; asks for all that rules may look at only if its names do not tell."""


def suspects_of(policy: Policy) -> Suspect:
    """Give a test that is sure of the tools that it clears: not every call to them is denied.

    Where somebody can be asked, only a rule that denies or the mode does so. Elsewhere a question is a deny as well,
    and below a parent it decides, so that each tool must be judged.
    """
    if not policy.interactive or policy.parent is not None:
        return lambda _, __: True
    lasting = [rule for rule in policy.book if rule.expires_at is None and not rule.reads_input]
    denying = [rule for rule in lasting if rule.behavior == Behavior.DENY]
    patterns = [translate(each.casefold().replace("[", "[[]")) for rule in denying for each in rule.tools]
    is_named = re.compile("|".join(patterns) or _NOTHING).match
    nameless = [rule for rule in denying if not rule.tools]
    strictest = Facts()
    mode_matters = mode_denies(policy.mode, strictest) is not None

    def is_suspect(declaration: ToolDeclaration, subject: Callable[[], Subject]) -> bool:
        return bool(
            is_named(f"{declaration.namespace}.{declaration.name}".casefold())
            or is_named(declaration.name.casefold())
            or (declaration.aliases and any(is_named(each.casefold()) for each in declaration.aliases))
            or (nameless and any(is_about(rule, subject()) for rule in nameless))
            or (mode_matters and mode_denies(policy.mode, subject().facts))
        )

    return is_suspect
