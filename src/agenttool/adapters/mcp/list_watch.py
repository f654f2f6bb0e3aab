"""The lists of a server during one session: read again when they may have changed, at the latest before a call.

A server can change its tools at any time. Up to 2025-11-25 it sends a notification, if the session has a stream for
it. In 2026-07-28 it reports changes on a stream that the client opens, and its lists say for how long they are valid.
A stream may be lost, and some servers report nothing. So no call relies on a list that is older than `MAX_AGE_S`.
"""

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable
from contextlib import suppress

import anyio
from mcp.shared.exceptions import MCPError

from agenttool.adapters.mcp.session import InvalidResult, McpSession
from agenttool.adapters.mcp.subscriptions import retry_delay
from agenttool.errors import StoreError, words_of

log = logging.getLogger("agenttool.mcp")

MAX_AGE_S = 60.0
"""How old the list of tools may be when one of them is called."""

REFRESH_S = 1.0
"""The shortest time between two reads of a list, unless a call waits for a list that changed."""

_SHOWN_CHARS = 300


class ListWatch:
    """Keeps what is known about the lists of a server current during one session."""

    def __init__(
        self,
        name: str,
        session: McpSession,
        read: Callable[[McpSession], Awaitable[None]],
        on_gap: Callable[[], None],
        is_waiting: Callable[[], bool],
    ) -> None:
        """Take the session, and what uses its lists.

        Args:
            name: of the server, for messages.
            session: the session.
            read: reads the lists, and uses them.
            on_gap: is called after changes may have been missed.
            is_waiting: whether tools wait for a review, so that a list without their changes must be noticed.
        """
        self.session = session
        self._name = name
        self._read = read
        self._on_gap = on_gap
        self._is_waiting = is_waiting
        self._reading = asyncio.Lock()
        self._wake = asyncio.Event()
        self._read_at = 0.0
        self._is_stale = True
        self._is_reported = False

    def mark_changed(self) -> None:
        """Read the lists again soon, and before the next call."""
        self._is_stale = True
        self._wake.set()

    @property
    def _is_current(self) -> bool:
        valid_s = self.session.tools_valid_s
        if self._is_reported or valid_s is None:
            valid_s = MAX_AGE_S
        valid_s = min(max(valid_s, REFRESH_S), MAX_AGE_S)
        return not self._is_stale and time.monotonic() - self._read_at < valid_s

    @property
    def is_known(self) -> bool:
        """Whether the lists are current and not being read, so that a call needs no `check`."""
        return not self._reading.locked() and self._is_current

    async def check(self) -> bool:
        """Read the lists again if they may have changed; return whether they were read.

        Raises:
            MCPError: the server answered with an error, or the connection ended.
            InvalidResult: it sent no list.
            StoreError: the definitions cannot be stored.
        """
        async with self._reading:
            if self._is_current:
                return False
            self._is_stale, started = False, time.monotonic()
            try:
                await self._read(self.session)
            except BaseException:
                self._is_stale = True
                raise
            self._read_at = started
            self._wake.set()  # `run` must know whether tools wait now
            return True

    async def run(self, on_read: Callable[[], Awaitable[None]]) -> None:
        """Read the lists again after each change; `on_read` is called afterwards."""
        async with anyio.create_task_group() as tasks:
            if self.session.is_modern:
                tasks.start_soon(self._listen)
            while True:
                with suppress(TimeoutError):
                    async with asyncio.timeout(MAX_AGE_S if self._is_waiting() else None):
                        await self._wake.wait()
                self._wake.clear()
                try:
                    if await self.check():
                        await on_read()
                except (MCPError, InvalidResult, StoreError) as error:
                    log.warning("the lists of %r cannot be read again: %s", self._name, words_of(error)[:_SHOWN_CHARS])
                await asyncio.sleep(REFRESH_S)

    async def _listen(self) -> None:
        """Subscribe to changes of lists, and again after the stream ended, if the server reports them."""
        capabilities = self.session.client.server_capabilities
        features = (capabilities.tools, capabilities.prompts, capabilities.resources)
        tools, prompts, resources = (each is not None and bool(each.list_changed) for each in features)
        if not (tools or prompts or resources):
            return
        failures, is_first = 0, True
        while True:
            opened = time.monotonic()
            try:
                async with self.session.client.listen(
                    tools_list_changed=tools, prompts_list_changed=prompts, resources_list_changed=resources
                ) as changes:
                    self._is_reported = bool(changes.honored.tools_list_changed)
                    if not is_first:
                        self._on_gap()
                    async for _ in changes:  # the connection gets each as a notification, too
                        pass
            except Exception as error:  # noqa: BLE001 -- whatever ended the stream
                log.debug("the stream of changes of %r ended: %s", self._name, words_of(error)[:_SHOWN_CHARS])
            self._is_reported, self._is_stale, is_first = False, True, False
            failures = 1 if time.monotonic() - opened >= MAX_AGE_S else failures + 1
            await asyncio.sleep(retry_delay(failures))
