"""The call from the inside: what a tool's function may know, say and ask while it runs."""

import asyncio
import threading
from collections.abc import Sequence
from typing import Protocol

from agenttool.adapters.rap.wire import LONGEST_PROMPT, MOST_CHOICES
from agenttool.rap.keeping.calls import KeptCall
from agenttool.records import JsonObject


class Line(Protocol):
    """What stands behind a call: a provider that runs."""

    async def choose(self, call: "Call", prompt: str, choices: Sequence[str], default: int, limit_s: float) -> int:
        """Ask the user to choose."""
        ...

    async def authorize(self, call: "Call", client: str | None, limit_s: float) -> str:
        """Give a token of the user's."""
        ...

    async def view(self, call: "Call", view_type: str, content: JsonObject) -> None:
        """Send a view."""
        ...

    async def keep_word(self, call: "Call", word: str) -> str:
        """Keep a word about a call, unless there is one."""
        ...

    def report(self, call: "Call", told: JsonObject) -> None:
        """Send a progress view, if the last one is gone."""
        ...


DAY_S = 86_400.0


class Call:
    """A parameter of this class is filled by the provider and is in no schema.

    Attributes:
        thread_id: the conversation that the call belongs to.
        id: of the call within its thread; `idempotency_key` is its name in the world.
        ancestors: the threads above, root first and parent last; a grant made in one of them may hold here.
        user_id: on whose behalf, if the runtime says so; a stranger's word, as far as the runtime is one.
        bookmark: where the last event of this subscription left off; none at its beginning.
        is_canceled: whether its runtime has asked for its end.
    """

    def __init__(self, kept: KeptCall, line: Line, *, ancestors: tuple[str, ...], user_id: str | None) -> None:
        """Take the call as it was kept."""
        self._kept = kept
        self._line = line
        self._loop = asyncio.get_running_loop()
        self._home = threading.get_ident()
        self.thread_id = kept.thread
        self.id = kept.id
        self.ancestors = ancestors
        self.user_id = user_id
        self.bookmark: str | None = None
        self.asked = 0
        self.is_canceled = False
        self.has_reported = False

    @property
    def number(self) -> int:
        """The number under which the provider keeps the call."""
        return self._kept.number

    @property
    def kept(self) -> KeptCall:
        """The call as it was kept."""
        return self._kept

    @property
    def idempotency_key(self) -> str:
        """A name for this call that no other has; pass it on to systems that act once per key."""
        return self._kept.key

    async def keep_word(self, word: str) -> str:
        """Keep a word about this call until it ends, and give it; after a restart, the one that was kept."""
        return await self._line.keep_word(self, word)

    async def choose(
        self, prompt: str, choices: Sequence[str], *, default: int | str = -1, limit_s: float = DAY_S
    ) -> str:
        """Ask the user, and give the label that was picked; ask before you act.

        After a restart the function runs again up to its open question, with the answers so far. The default, the
        last label unless you say otherwise, is taken when the user dismisses the question, so it should do no harm.

        Raises:
            ToolFailure: nobody answered within the limit, or the answer was none of the choices.
            ValueError: a label says nothing, cannot be read, or stands twice, so that nobody could tell what it means;
                or the question is longer than a runtime takes.
        """
        labels = list(choices)
        if (
            not labels
            or len(set(labels)) < len(labels)
            or not all(each.strip() and each.isprintable() for each in labels)
        ):
            raise ValueError(
                "each label must say something, in printable characters, and no two the same; correct them"
            )
        if len(labels) > MOST_CHOICES or any(len(each) > LONGEST_PROMPT for each in (prompt, *labels)):
            raise ValueError(
                f"ask with {MOST_CHOICES} labels and in {LONGEST_PROMPT} characters each at most; ask for less"
            )
        place = labels.index(default) if isinstance(default, str) else default % len(labels)
        return labels[await self._line.choose(self, prompt, labels, place, limit_s)]

    async def authorize(self, client: str | None = None, *, limit_s: float = 600.0) -> str:
        """Give an access token of the user's, and let the user grant it first if there is none.

        Args:
            client: the name of an OAuth client of the provider; the one that the tool requires, if left out.
            limit_s: how long the user may take.

        Raises:
            ToolFailure: nobody granted it within the limit, or it was refused, or the call names no user.
        """
        return await self._line.authorize(self, client, limit_s)

    async def view(self, view_type: str, content: JsonObject) -> None:
        """Show people something beside the conversation, such as `diff`; an empty object clears it."""
        await self._line.view(self, view_type, content)

    def report(self, message: str | None = None, *, percent: float | None = None) -> None:
        """Tell people how far the work is; safe from any thread, and dropped rather than waited for."""
        told: JsonObject = {"message": message, "percent": percent, "tool_call_id": self.id}
        if threading.get_ident() == self._home:
            self._line.report(self, told)
        else:
            self._loop.call_soon_threadsafe(self._line.report, self, told)
