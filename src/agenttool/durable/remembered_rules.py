"""The rules that approvers asked to remember, for every process on a store."""

import asyncio
import logging
from collections.abc import Sequence

from agenttool.call.approval import forget, remember
from agenttool.call.call import Core
from agenttool.config import Setting
from agenttool.errors import StoreError
from agenttool.journal.projection import records_of
from agenttool.policy.approvals import Question
from agenttool.policy.rule_settings import read_rule
from agenttool.policy.rules import Rule
from agenttool.policy.suggest import ADD_RULE
from agenttool.ports.facts import Fact
from agenttool.records import Behavior, InvocationId, PermissionDecision, RuleSource

REMEMBERED_RULE = "remembered_rule"
"""The kind of the documents; the key is the approval, the body the call."""

MAX_RULES = 10_000

log = logging.getLogger("agenttool.rules")


class RememberedRules:
    """The rules that approvers asked to remember, for every process on a store.

    A document names the call of each such answer. The rule itself is read from the journal, which is hash-chained, so a
    document that a person adds by hand allows nothing. Deleting the document revokes the rule.
    """

    def __init__(self, core: Core) -> None:
        """Take the core that the rules apply to."""
        self._core = core
        self._documents = core.durability.documents
        self._known: dict[str, Rule | None] = {}
        self._syncing = asyncio.Lock()

    async def add(self, question: Question, rule: Rule) -> None:
        """Store the rule of an answer, whose decision is in the journal; if that fails, only this process has it."""
        self._known[question.approval_id] = rule
        try:
            await self._documents.put(REMEMBERED_RULE, question.approval_id, question.invocation_id.encode())
        except StoreError as error:
            log.warning("the rule %r is remembered only until this process ends: %s", rule.ref, error)

    async def sync(self) -> bool:
        """Apply what other processes remembered or forgot; return whether a rule was added."""
        if await self._stored_keys() == [*self._known]:
            return False
        async with self._syncing:  # otherwise two calls load the same rule, and log twice that it has ended
            return await self._apply(await self._stored_keys())

    async def _stored_keys(self) -> Sequence[str]:
        try:
            return await self._documents.keys(REMEMBERED_RULE, limit=MAX_RULES)
        except StoreError:
            return [*self._known]  # a call without its rule is asked about

    async def _apply(self, stored: Sequence[str]) -> bool:
        for key in self._known.keys() - set(stored):
            rule = self._known.pop(key)
            if rule is not None:
                forget(self._core, rule)
        added = False
        for key in stored:
            if key not in self._known:
                rule = self._known[key] = await self._load(key)
                if rule is not None:
                    remember(self._core, rule)
                    added = True
        return added

    async def forget(self, approval_id: str) -> bool:
        """Revoke a rule for all processes; return whether there was one."""
        body = await self._documents.get(REMEMBERED_RULE, approval_id)
        if body is not None:
            await self._documents.withdraw(REMEMBERED_RULE, approval_id, before=body, after=None)
            await self.sync()
        return body is not None

    async def _load(self, approval_id: str) -> Rule | None:
        """Return the rule of an answer in the journal; none if the journal has no such answer."""
        body = await self._documents.get(REMEMBERED_RULE, approval_id)
        facts = () if body is None else self._core.journal.log.facts_of(InvocationId(body.decode(errors="replace")))
        rule = remembered_rule(facts, approval_id)
        if rule is not None:
            return rule
        if facts:
            log.warning(
                "the remembered rule %r is ignored: the journal has no such answer; verify the journal", approval_id
            )
        else:
            log.warning(
                "the remembered rule %r has ended: retention deleted its call from the journal; let an approver"
                " remember the next answer, or write the rule to the settings",
                approval_id,
            )
            await self._documents.put(REMEMBERED_RULE, approval_id, None)
        return None


def remembered_rule(facts: Sequence[Fact], approval_id: str) -> Rule | None:
    """Return the rule that an answer added, from the facts of its call; none if there is no such answer."""
    for record in records_of(facts):
        if isinstance(record, PermissionDecision) and _is_answer(record, approval_id):
            for update in record.suggested_updates or ():
                if update.type == ADD_RULE and isinstance(update.rule, dict):
                    return read_rule(Setting(members=update.rule, source=RuleSource.SESSION))
    return None


def _is_answer(decision: PermissionDecision, approval_id: str) -> bool:
    details = None if decision.reason is None else decision.reason.details
    is_allowed = decision.behavior is Behavior.ALLOW and decision.answers is not None
    return is_allowed and (details or {}).get("approval_id") == approval_id
