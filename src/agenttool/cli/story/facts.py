"""A tool is declared once, and nobody's silence is taken for permission."""

from agenttool.cli.story.teller import Teller
from agenttool.codec import to_json
from agenttool.records import (
    INTERFACE_DEFAULTS,
    InterfaceId,
    Lifecycle,
    ToolDeclaration,
    ToolId,
    ToolInterface,
    ToolKind,
    acted_on,
    complete_interface,
)


def tell(teller: Teller) -> None:
    """Declare a tool that says little about itself, and show what is made of its silence."""
    teller.chapter("A tool that says little is trusted little")
    declaration = ToolDeclaration(
        tool_id=ToolId("tool_files.write_file"),
        namespace="files",
        name="write_file",
        description="Write text to a file. Not for binary data.",
        lifecycle=Lifecycle.AVAILABLE,
        tool_kind=ToolKind.FILE_OPERATION,
    )
    teller.show("the declaration, as anyone can read it:", to_json(declaration))
    said = ToolInterface(
        interface_id=InterfaceId("tool_interface:files.write_file"), tool_id=declaration.tool_id, is_open_world=False
    )
    completed = complete_interface(said)
    written = to_json(completed)
    inferred = completed.inferred_facts or ()
    teller.say("Its author said one thing: it does not reach the open world. Everything else is assumed, and says so:")
    teller.table(
        "what a record says, and what is acted on",
        ("fact", "recorded", "acted on", "because"),
        [
            (
                default.fact,
                repr(written[default.fact]),
                repr(str(value) if isinstance(value := acted_on(completed, default.fact), str) else value),
                f"nobody said so ({default.requirement})" if default.fact in inferred else "the author said so",
            )
            for default in INTERFACE_DEFAULTS
        ],
    )
    teller.claim("a tool nobody described is judged as destructive", holds=acted_on(said, "is_destructive") is True)
    teller.claim("what was assumed is listed in the record itself", holds=len(inferred) == len(INTERFACE_DEFAULTS) - 1)
