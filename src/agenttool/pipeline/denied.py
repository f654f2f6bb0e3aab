"""Which tools rules deny whatever their arguments, so that a surface need not show them."""

from collections.abc import Iterator, Mapping, Sequence
from functools import partial

from agenttool.catalog.entry import Entry
from agenttool.catalog.filters import Absence, denied_by
from agenttool.catalog.roster import Roster
from agenttool.pipeline.core import Core
from agenttool.policy.decide import Policy, deny_prefilter
from agenttool.ports.surfacing import SurfacePolicy
from agenttool.records import Behavior, ToolId


class Denied:
    """The tools that are denied in any case; under one policy, each is asked about once until it is replaced."""

    def __init__(self, core: Core, wanted: SurfacePolicy) -> None:
        """Take whose policy decides, and whether anybody wants to know."""
        self._core = core
        self._wanted = wanted
        self._policy: Policy | None = None
        self._is_suspect = deny_prefilter(core.policy)
        self._seen: Sequence[Entry] = ()
        self._size = 0
        self._found: dict[ToolId, Absence] = {}

    def among(self, roster: Roster) -> Mapping[ToolId, Absence]:
        """Give the tools that are denied, and by what; none unless a deployment wants them hidden."""
        if not self._wanted.hide_denied:
            return {}
        policy = self._core.policy
        if policy is not self._policy:
            self._policy, self._seen, self._size, self._found = policy, (), 0, {}
            self._is_suspect = deny_prefilter(policy)
        for entry in self._unseen(roster):
            subject = partial(self._core.tools.subjects.__getitem__, entry)
            is_suspect = self._is_suspect(entry.tool.declaration, subject)
            verdict = policy.standing(subject()) if is_suspect else None
            if verdict is not None and verdict.behavior is Behavior.DENY:
                self._found[entry.tool_id] = denied_by(verdict.rule_refs)
            else:
                self._found.pop(entry.tool_id, None)
        self._seen = roster.entries
        # of a roster from before some tools came, nobody can tell later which of them were replaced
        self._size = min(max(self._size, roster.size), len(self._seen))
        return self._found

    def _unseen(self, roster: Roster) -> Iterator[Entry]:
        """Go through the tools that were replaced or came since somebody asked."""
        if roster.entries is not self._seen:
            pairs = zip(self._seen, roster.entries, strict=False)
            yield from (new for old, new in pairs if old is not new)
        yield from roster.entries[self._size : roster.size]
