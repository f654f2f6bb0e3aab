"""Build the parts of a runtime from options and settings: its policy, and the store and clock it uses."""

from collections.abc import Awaitable, Callable, Iterable
from pathlib import Path
from random import random
from typing import cast

from agenttool.assemble.checks import all_of
from agenttool.assemble.settings import place_of, rules_of, workspace_of
from agenttool.config import Config
from agenttool.errors import ConfigError
from agenttool.journal.steps import STEPS
from agenttool.pipeline.world import World
from agenttool.policy.decide import Policy
from agenttool.policy.rules import Rule, RuleBook
from agenttool.policy.votes import PermissionMode
from agenttool.ports.semantic_index import SemanticIndex
from agenttool.stores.location import open_store
from agenttool.world import SystemClock, UniqueIds

Closing = Callable[[], Awaitable[None]]

SHORTEST_LEASE_S = 1.0
"""A process renews its lease a few times a second; a shorter lease could expire while the process still runs."""


def policy_of(settings: Config, rules: Iterable[Rule], mode: str | None, interactive: bool | None) -> Policy:  # noqa: FBT001 -- an option of `Runtime.open`
    """Return the policy of the settings, with what the program passed taking precedence.

    Raises:
        ConfigError: a rule, the mode or `interactive` is wrong.
    """
    book = RuleBook((*rules_of(settings), *all_of("rules", rules, Rule)))
    wanted = settings.mode or PermissionMode.DEFAULT if mode is None else mode
    if wanted not in list(PermissionMode):
        place = f"{settings.mode_place}: " if mode is None else ""
        raise ConfigError(f"{place}no permission mode is called {wanted!r}; use one of {', '.join(PermissionMode)}")
    if interactive not in (True, False, None):
        raise ConfigError(f"interactive must be true, false or left out, got {interactive!r}; use one of them")
    asked = settings.interactive if interactive is None else interactive
    return Policy(
        book=book,
        mode=PermissionMode(wanted),
        interactive=True if asked is None else asked,
        workspace=workspace_of(settings),
    )


def open_world(
    settings: Config,
    *,
    store: str | None,
    payloads: str | None,
    lease_s: float,
    thread: str | None,
    search_model: str | Path | None,
) -> World:
    """Open the store and the search model, and return them with the system's clock and ids.

    Raises:
        ConfigError: `lease_s`, the store or the search model cannot be used.
        StoreError: the store cannot be opened.
    """
    if not isinstance(cast("object", lease_s), int | float) or not lease_s >= SHORTEST_LEASE_S:
        raise ConfigError(f"lease_s must be a number of seconds from {SHORTEST_LEASE_S} on, got {lease_s!r}")
    place, folder = place_of(settings, store, payloads)
    semantic_index = _semantic_index(search_model or settings.search_model)
    opened = open_store(place, STEPS, folder)
    return World(
        clock=SystemClock(),
        ids=UniqueIds(),
        log=opened.log,
        payloads=opened.payloads,
        open_calls=opened.open_calls,
        shelf=opened.documents,
        close=_closing(opened.close, semantic_index),
        random=random,
        lease_s=lease_s,
        thread=thread or "thr_" + UniqueIds().unique(),
        semantic_index=semantic_index,
    )


def _closing(close: Closing | None, semantic_index: SemanticIndex | None) -> Closing:
    """Return a function that closes the search index and the store."""

    async def both() -> None:
        if semantic_index is not None:
            semantic_index.close()
        if close is not None:
            await close()

    return both


def _semantic_index(model: str | Path | None) -> SemanticIndex | None:
    """Load the embedding model that search uses, if one is configured.

    Raises:
        ConfigError: it cannot be used, or the optional extra is not installed.
    """
    if model is None:
        return None
    from agenttool.adapters.embedding.model import open_model  # noqa: PLC0415 -- only who wants it pays for it

    opened = open_model(Path(model))
    from agenttool.adapters.embedding.embedding_index import EmbeddingIndex  # noqa: PLC0415 -- needs the extra, which is there now

    return EmbeddingIndex(opened, Path(model))
