"""Which tools rules deny whatever their arguments, so that a surface need not show them."""

from collections.abc import Mapping

from agenttool.catalog.filters import Absence, denied_by
from agenttool.catalog.roster import Roster
from agenttool.pipeline.core import Core
from agenttool.policy.decide import Policy
from agenttool.ports.surfacing import SurfacePolicy
from agenttool.records import Behavior, ToolId


class Denied:
    """The tools that are denied in any case; worked out once for a policy and a roster."""

    def __init__(self, core: Core, wanted: SurfacePolicy) -> None:
        """Take whose policy decides, and whether anybody wants to know."""
        self._core = core
        self._wanted = wanted
        self._for: tuple[Policy, Roster] | None = None
        self._found: dict[ToolId, Absence] = {}

    def among(self, roster: Roster) -> Mapping[ToolId, Absence]:
        """Give the tools of a roster that are denied, and by what; none unless a deployment wants them hidden."""
        if not self._wanted.hide_denied:
            return {}
        policy = self._core.policy
        if self._for != (policy, roster):
            self._found = {}
            for entry in roster.entries:
                verdict = policy.standing(self._core.tools[entry].subject)
                if verdict is not None and verdict.behavior is Behavior.DENY:
                    self._found[entry.tool_id] = denied_by(verdict.rule_refs)
            self._for = (policy, roster)
        return self._found
