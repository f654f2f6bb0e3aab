"""Other rules before recorded calls."""

from collections.abc import Iterator
from dataclasses import dataclass

from agenttool.cli.replay.recorded import Judged
from agenttool.cli.replay.tools import Tools
from agenttool.cli.replay.unseen import Doubt, doubts_about
from agenttool.config import Config
from agenttool.policy.decide import Policy
from agenttool.policy.paths import Workspace
from agenttool.policy.rules import RuleBook
from agenttool.policy.verdict import Verdict, Weight
from agenttool.policy.votes import PermissionMode
from agenttool.records import Behavior

UNKNOWN = "unknown"

_FACTS = "no rule speaks, and what the tool says of itself is not in the journal; name its module with --from"
_AS_THEN = "no rule speaks, so what the tool says of itself decides, as it did"


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """What would have been decided about one call, beside what was."""

    call: Judged
    tool: str
    was: str
    would: str
    because: str
    rule_refs: tuple[str, ...] = ()

    @property
    def in_short(self) -> str:
        """Why, in few words: the rules that decide, if there are any."""
        return ", ".join(self.rule_refs) or self.because

    @property
    def differs(self) -> bool:
        """Whether it is known that it would have gone another way."""
        return self.would not in (self.was, UNKNOWN)


class Replay:
    """A rule file, ready to judge.

    Where it says nothing about the mode, or about whether anybody can be asked, these are as they were then. What a
    sub-agent's parent would have said, and rules that a person gave for a session, are not replayed.
    """

    def __init__(self, settings: Config, book: RuleBook, workspace: Workspace, tools: Tools) -> None:
        """Take what the file says, and the tools."""
        self._settings = settings
        self._book = book
        self._workspace = workspace
        self._tools = tools
        self._policies: dict[tuple[str, bool, tuple[str, ...]], Policy] = {}

    def judge(self, call: Judged) -> Outcome:
        """Decide about one call as the file would have."""
        mode = self._settings.mode or call.decision.mode or PermissionMode.DEFAULT
        interactive = call.interactive if self._settings.interactive is None else self._settings.interactive
        seen = self._tools.see(call.invocation.tool_id, call.arguments, call.facts)
        doubts = doubts_about(self._book, seen, call.arguments, self._workspace)
        policy = self._policy(mode, doubts, interactive=interactive)
        verdicts = [
            policy.decide(
                subject,
                call.arguments,
                now=call.decision.decided_at,
                facts=facts,
                hook_votes=call.hints,
                external_votes=call.opinions,
            )
            for subject, facts in seen.readings
        ]
        would = {each for verdict in verdicts for each in _possible(verdict, doubts, interactive=interactive)}
        tool, was = self._tools.name_of(call.invocation.tool_id), call.decision.behavior.value
        if len(would) == 1:
            reason = verdicts[0].reason.message or ""
            (only,) = would
            return Outcome(
                call=call, tool=tool, was=was, would=only.value, because=reason, rule_refs=verdicts[0].rule_refs
            )
        if doubts:
            why = f"{doubts[0].rule.ref} looks at {doubts[0].looks_at}"
            return Outcome(call=call, tool=tool, was=was, would=UNKNOWN, because=why)
        is_as_then = call.rests_on_the_tool and mode == call.decision.mode and call.decision.behavior in would
        if is_as_then:
            return Outcome(call=call, tool=tool, was=was, would=was, because=_AS_THEN)
        return Outcome(call=call, tool=tool, was=was, would=UNKNOWN, because=_FACTS)

    def _policy(self, mode: str, doubts: tuple[Doubt, ...], *, interactive: bool) -> Policy:
        """Give the policy without the rules that are in doubt; tools are remembered by it, so it is made once."""
        left_out = tuple(doubt.rule.ref for doubt in doubts)
        key = (mode, interactive, left_out)
        if key not in self._policies:
            self._policies[key] = Policy(
                book=self._book.without(*left_out),
                mode=PermissionMode(mode),
                interactive=interactive,
                workspace=self._workspace,
            )
        return self._policies[key]


def _possible(verdict: Verdict, doubts: tuple[Doubt, ...], *, interactive: bool) -> Iterator[Behavior]:
    """Give what may have been decided, whichever of the rules in doubt match: the strictest word wins."""
    yield verdict.behavior
    for doubt in doubts:
        said = doubt.rule.behavior
        weight = {Behavior.DENY: Weight.DENY, Behavior.ASK: Weight.ASK}.get(said, Weight.ALLOW)
        if weight < verdict.weight:
            yield said if interactive or said is not Behavior.ASK else Behavior.DENY
