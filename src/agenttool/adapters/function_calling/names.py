"""Names that every provider takes, and back to the tool that is meant.

Providers differ in what a name may be: 64 characters here and 128 there, dots or none, a letter first or anything. What
they all take is one spelling, so that a transcript can move from one provider to another.
"""

import hashlib
import re
from collections import Counter
from collections.abc import Container, Iterable

from agenttool.ports.offer import OfferedTool

MAX_CHARS = 64
_FITS = re.compile(r"[A-Za-z_][A-Za-z0-9_-]{0,63}")
_STRANGE = re.compile(r"[^A-Za-z0-9_-]")
_FEWEST_DIGITS = 8


def named(
    tools: Iterable[OfferedTool], reserved: Iterable[str] = (), *, waiting: Iterable[OfferedTool] = ()
) -> dict[str, OfferedTool]:
    """Give every tool a name of its own; whoever is called by it is found in the same table.

    A name that fits and that no other tool wants stays as it is. Two tools that share a bare name are told apart by
    their namespaces, and where spelling a name anew is not enough, by a digest of the qualified name. The order of the
    tools does not matter. Those that wait to be loaded are given no name, but claim theirs already, so that loading
    one renames none.
    """
    chosen, later = list(tools), list(waiting)
    shared = Counter(tool.name for tool in (*chosen, *later))
    wanted = {tool.qualified_name: _wanted(tool, is_shared=shared[tool.name] > 1) for tool in chosen}
    claims = Counter(wanted.values())
    claims.update(_wanted(tool, is_shared=shared[tool.name] > 1) for tool in later)
    taken = set(reserved)
    names: dict[str, str] = {}
    for tool in chosen:
        name = wanted[tool.qualified_name]
        is_free = name not in taken and (claims[name] == 1 or name == tool.name)
        if is_free and _FITS.fullmatch(name):
            names[tool.qualified_name] = name
    taken.update(claims)
    for qualified_name in sorted(wanted.keys() - names.keys()):
        name = _marked(wanted[qualified_name], qualified_name, taken)
        names[qualified_name] = name
        taken.add(name)
    return {names[tool.qualified_name]: tool for tool in chosen}


def _wanted(tool: OfferedTool, *, is_shared: bool) -> str:
    """Spell the name that a tool would like best, however long."""
    spelled = _STRANGE.sub("_", f"{tool.namespace}__{tool.name}" if is_shared else tool.name)
    return spelled if spelled[:1].isalpha() or spelled[:1] == "_" else f"_{spelled}"


def _marked(name: str, qualified_name: str, taken: Container[str]) -> str:
    """Cut a name to make room for a digest of the whole, as long as it takes to be unlike any other."""
    digest = hashlib.sha256(qualified_name.encode(errors="surrogatepass")).hexdigest()
    for digits in range(_FEWEST_DIGITS, MAX_CHARS - 1):
        marked = f"{name[: MAX_CHARS - 1 - digits]}_{digest[:digits]}"
        if marked not in taken:
            return marked
    raise AssertionError("two qualified names have the same digest")
