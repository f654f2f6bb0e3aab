"""Wait in a tool's stead for what it waits for, and never lose the way out."""

from asyncio import Future, isfuture
from collections.abc import Generator
from typing import TypeGuard


def answer_to(awaited: object) -> Generator[object, None, BaseException | None]:
    """Wait for what the tool waits for, and give the error with which the event loop woke us, if there was one."""
    try:
        if may_refuse(awaited):
            yield from _stand_in(awaited)
        else:
            yield awaited
    except GeneratorExit:
        raise
    except BaseException as error:  # noqa: BLE001 -- it belongs to the tool, which gets it next
        del awaited
        return error
    return None


def may_refuse(awaited: object) -> TypeGuard["Future[object]"]:
    """Tell whether canceling this need not end it: another task may go on, a plain future cannot."""
    return type(awaited) is not Future and awaited is not None and isfuture(awaited)


def _stand_in(other: "Future[object]") -> Generator[object, None, None]:
    """Wait until another task has ended, and yet be woken at once if we are canceled."""
    # A task takes this mark off what it is given to wait for; here we are the ones who were given it.
    other._asyncio_future_blocking = False  # noqa: SLF001 # pyright: ignore[reportPrivateUsage] -- asyncio's protocol
    own: Future[None] = other.get_loop().create_future()

    def wake(_: "Future[object]") -> None:
        if not own.done():
            own.set_result(None)

    other.add_done_callback(wake)
    try:
        yield from own
    finally:
        other.remove_done_callback(wake)
