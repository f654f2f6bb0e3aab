"""`agenttool views`: the views that servers publish for each thread."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import suppress

from agenttool.adapters.rap.threads import View, ViewStore
from agenttool.cli.format import indented_json, print_json
from agenttool.cli.options import StoreOptions, argument, flag, open_existing_store, option
from agenttool.cli.output import hint, is_json, print_blocks, print_text
from agenttool.history.printable import one_line

POLL_S = 0.2
"""How often `--follow` reads the views."""


def views(
    types: list[str] | None = argument("TYPE", "Only views of these types"),
    *,
    thread: str | None = option("--thread ID", "Only views of this thread"),
    follow: bool = flag("--follow -f", "Print each view when it changes, until Ctrl-C"),
    options: StoreOptions,
) -> None:
    """Show the views that servers publish for each thread.

    Only the latest view of each type counts. The content of a view comes from its
    server and is shown as data: nothing in it is run or opened.
    """

    async def print_views() -> int:
        shown = 0
        async with open_existing_store(options) as parts:
            async for view in _changes(ViewStore(parts.documents), thread, follow=follow):
                if types and view.view_type not in types:
                    continue
                shown += 1
                print_json({"thread_id": view.thread_id, "view_type": view.view_type, "content": view.content})
                _print_view(view)
        return shown

    with suppress(KeyboardInterrupt):  # the way to end --follow
        if not asyncio.run(print_views()) and not is_json():
            hint("there are no views")


async def _changes(views: ViewStore, thread: str | None, *, follow: bool) -> AsyncIterator[View]:
    """Yield all views, then each that changes; a removed view has no content."""
    shown: dict[tuple[str, str], View] = {}
    while True:
        found = {(view.thread_id, view.view_type): view for view in await views.of(thread)}
        for key, view in found.items():
            if shown.get(key) != view:
                yield view
        for key in shown.keys() - found.keys():
            yield View(thread_id=key[0], view_type=key[1], content={})
        shown = found
        if not follow:
            return
        await asyncio.sleep(POLL_S)


def _print_view(view: View) -> None:
    print_text(f"{one_line(view.thread_id)}  {one_line(view.view_type)}", "bold")
    if view.content:
        print_blocks([indented_json(view.content)])
    else:
        print_text("  removed", "dim")
