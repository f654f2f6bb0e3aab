"""What it means for security to call a toolset and each of its tools, as a page for whoever has to decide about it."""

from collections.abc import Iterator

from agenttool.rap.declare import RapTool
from agenttool.rap.settings import Settings


def security_page(settings: Settings) -> str:
    """Write the page, in Markdown: first what holds for the toolset, then each tool."""
    lines = [f"# Security of the toolset {settings.name}", "", *(f"- {each}" for each in _of_toolset(settings))]
    for name, tool in settings.tools.items():
        said = " ".join(tool.definition.description.split())
        lines += ["", f"## {name}", "", said, "", *(f"- {each}" for each in _of_tool(tool, settings))]
    return "\n".join(lines) + "\n"


def _of_toolset(settings: Settings) -> Iterator[str]:
    if settings.admits is None:
        yield "**Who may call:** everybody who reaches it; for trusted networks only."
    else:
        yield f"**Who may call:** whoever shows the right credential ({type(settings.admits).__name__})."
    yield f"**Where it posts:** to the callback URLs of its callers: {_reach(settings)}."
    if settings.presents is None:
        yield "**How it is known there:** by nothing but the secret callback URL."
    else:
        yield f"**How it is known there:** by a credential of its own ({type(settings.presents).__name__})."
    yield f"**What is kept:** arguments, results and subscriptions, readable in the file {settings.store.name}."
    if settings.clients:
        how = "in the clear" if settings.cipher is None else "encrypted"
        yield f"**Tokens of users:** kept {how} in the same file, for {', '.join(sorted(settings.clients))}."
    if settings.governed:
        yield "**Governed tools:** tools of a runtime are offered as well; that runtime's own rules decide each call."


def _reach(settings: Settings) -> str:
    reach = settings.reach
    inside = [*map(str, reach.networks), *sorted(reach.hosts)]
    where = f"public addresses, and {', '.join(inside)}" if inside else "public addresses only"
    return f"{where}, over https only" if reach.https_only else where


def _of_tool(tool: RapTool, settings: Settings) -> Iterator[str]:
    hints = tool.definition.hints
    if hints.get("readOnly") is True:
        yield "**Effects:** reads only."
    elif hints.get("destructive") is False:
        yield "**Effects:** changes things, and destroys nothing."
    else:
        yield "**Effects:** may change and destroy things; nothing says that it does not."
    if tool.is_repeatable:
        yield "**After a crash:** may be run again; doing it twice does no harm."
    else:
        yield "**After a crash:** is not run again; its caller is told that nobody knows how far it was."
    if tool.requires_auth is not None:
        page = settings.clients[tool.requires_auth].authorize_url
        yield f"**Acts as the user:** asks them for an authorization at {page}, and uses the token."
    if tool.is_subscription:
        yield "**Goes on:** tells events until it is canceled; each may reach the model."
    if tool.definition.display_script is not None:
        yield "**Shown by a script:** brings a script that clients may run; run it in a sandbox only."
