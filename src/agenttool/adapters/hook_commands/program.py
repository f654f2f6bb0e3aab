"""A command as someone wrote it, to the program that it names."""

import os.path
import shutil


def find_program(command: tuple[str, ...], *, folder: str, path: str | None) -> tuple[str, ...]:
    """Give a command with the whole path of its program, found now rather than when it is first needed.

    A bare name is looked for on `path`; one with a slash lies below `folder`, unless it is absolute.

    Raises:
        ValueError: there is no such program, or it may not be executed.
    """
    name, *arguments = command
    is_place = "/" in name
    place = os.path.join(folder, name) if is_place else name  # noqa: PTH118 -- a command is text, and stays as written
    found = shutil.which(place, path=path)
    if found is not None:
        return found, *arguments
    if not is_place:
        raise ValueError(f"no program on the PATH is called {name!r}; install it, or write where it lies")
    if os.path.isfile(place):  # noqa: PTH113 -- as above
        raise ValueError(f"{place!r} may not be executed; make it executable, or name the program that runs it")
    raise ValueError(f"no program lies at {place!r}; correct the path, which begins at the settings file")
