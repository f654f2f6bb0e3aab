"""Apply changed settings to an open runtime: its rules and its sources; other settings need a new process."""

from dataclasses import dataclass, fields, replace

from agenttool.agent.agent import Agent
from agenttool.agent.attached_sources import SourceManager
from agenttool.assemble.approving import Approval
from agenttool.assemble.settings import make_policy
from agenttool.assemble.sources import MadeSources, make_sources
from agenttool.config import Config
from agenttool.policy.rule_settings import RuleOption
from agenttool.ports.source import Source, SourceSettings
from agenttool.records import RuleSource

_RELOADED = frozenset({"rules", "sources", "roles", "teams", "mode", "mode_place", "interactive", "workspace", "user"})
"""The fields of `Config` that an open runtime applies."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AppliedSettings:
    """The settings of an open runtime, and the options of its program that apply beside them.

    Attributes:
        initial: the settings that the runtime was opened with.
        files: path patterns for the files of its store; none in memory.
    """

    config: Config
    initial: Config
    rules: tuple[RuleOption, ...]
    mode: str | None
    approve: Approval | None
    files: tuple[str, ...]
    tenant: str
    given: tuple[Source | SourceSettings, ...]
    made: MadeSources

    @property
    def needs_restart(self) -> tuple[str, ...]:
        """The settings that differ from those at the start, and that only a new process applies."""
        names = (each.name for each in fields(Config) if each.name not in _RELOADED)
        return tuple(each for each in names if getattr(self.config, each) != getattr(self.initial, each))

    async def apply(self, config: Config, agent: Agent, sources: SourceManager) -> "AppliedSettings":
        """Apply the rules and sources of other settings. Running calls continue; the next call follows the new rules.

        Raises:
            ConfigError: the settings are invalid; nothing has changed then.
            StoreError: the store cannot be written; nothing has changed then.
        """
        policy = make_policy(config, self.rules, self.mode, approve=self.approve, files=self.files, tenant=self.tenant)
        made = make_sources(config, self.given)
        removed, added = made.changed(self.made)
        core = agent.core
        # While the sources connect, a call needs the consent of both policies: old rules do not know the new tools.
        core.policy = replace(core.policy, parent=policy)
        agent.surfacing.renew_after_policy_change()  # open questions are judged once the new rules are in force
        try:
            async with sources.replacing(removed, added):
                agent.check_rules(policy.book, policy.groups)
        except BaseException:
            core.policy = replace(core.policy, parent=None)
            raise
        else:
            remembered = (each for each in core.policy.book if each.source == RuleSource.SESSION)
            core.policy = policy.with_book(policy.book.with_rule(*remembered))
        finally:
            agent.policy_changed()
        return replace(self, config=config, made=made)
