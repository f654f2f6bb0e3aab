"""What a process would do with a store: `agenttool trust` lists it, and the error for an unknown store counts it."""

import shlex
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import NoReturn

from agenttool.call.checkpoint import CheckpointKind, checkpoint_in
from agenttool.codec import read_own
from agenttool.config.effects import SettingsEffect
from agenttool.config.program import program_name
from agenttool.config.trust import place_of
from agenttool.durable.remembered_rules import REMEMBERED_RULE, remembered_rule
from agenttool.durable.stored_approvals import StoredAnswer
from agenttool.errors import ConfigError
from agenttool.history.printable import one_line
from agenttool.journal.steps import STEPS
from agenttool.policy.approvals import Remember
from agenttool.records import InvocationId, JsonObject
from agenttool.server.grants import DOCUMENT_KIND, GrantKind
from agenttool.stores.sqlite.reader import SqliteReader

MAX_LISTED = 20
"""So many effects of each kind are listed; the others are counted."""


def store_effects(file: Path) -> list[SettingsEffect]:
    """Return the calls that a process would resume or ask about, the remembered rules, and the keys of a store.

    Raises:
        ConfigError: it cannot be read.
    """
    with SqliteReader.open(file, steps=STEPS) as reader:
        effects = [*_effects(reader)]
    listed: list[SettingsEffect] = []
    for verb, noun in _NOUNS.items():
        same = [each for each in effects if each.verb == verb]
        listed += same[:MAX_LISTED]
        if len(same) > MAX_LISTED:
            listed.append(SettingsEffect(verb, f"{len(same) - MAX_LISTED:,} more {noun}s"))
    return listed


_NOUNS = {"resume": "approved call", "allow": "remembered rule", "admit": "key", "ask": "open question"}


def _effects(reader: SqliteReader) -> Iterator[SettingsEffect]:
    for opened in reader.open_calls():
        checkpoint = checkpoint_in(opened)
        name = "a call" if checkpoint is None else one_line(checkpoint.name)
        is_asked = opened.kind == CheckpointKind.ASKED and opened.answer is None
        what = f"about {name}" if is_asked else f"{name}, which needs no answer any more"
        yield SettingsEffect("ask" if is_asked else "resume", f"{what} ({one_line(opened.invocation_id)})")
        answer = None if not opened.answer else read_own(opened.answer, StoredAnswer).answer
        if isinstance(answer, Remember):
            what = f"calls with {_members(answer.rule)} (once {one_line(opened.invocation_id)} runs)"
            yield SettingsEffect("allow", what)
    for approval_id, call in reader.documents(REMEMBERED_RULE):
        facts = [fact for _, fact in reader.facts_of(InvocationId(call.decode(errors="replace")))]
        rule = remembered_rule(facts, approval_id)
        if rule is not None:
            what = f"calls with {_members(rule.conditions)} (remembered for {one_line(approval_id)})"
            yield SettingsEffect("allow", what)
    for key, _ in reader.documents(DOCUMENT_KIND):
        kind, _, name = key.partition("_")
        if kind == GrantKind.KEY:
            yield SettingsEffect("admit", f"requests with the key {one_line(name)}")


def _members(rule: JsonObject) -> str:
    return one_line(" ".join(f"{name}={value}" for name, value in rule.items()))


def require_store_trust(file: Path) -> NoReturn:
    """Reject a store that this user neither created nor trusts.

    Raises:
        ConfigError: always; the message has the effects of the store, and the command that trusts it.
    """
    with SqliteReader.open(file, steps=STEPS) as reader:
        counts = Counter(each.verb for each in _effects(reader))
    found = [f"{n:,} {noun}{'' if n == 1 else 's'}" for verb, noun in _NOUNS.items() if (n := counts[verb])]
    place = place_of(file)
    raise ConfigError(
        f"{place} was not created here by this user, so it is not used, and it stays as it is. It holds"
        f" {', '.join(found) or 'no open call and no rule'}; look at it with `{program_name()} log --store"
        f" {shlex.quote(place.name)}`, then type `{program_name()} trust {shlex.quote(str(place))}`,"
        " or name the file with --store"
    )
