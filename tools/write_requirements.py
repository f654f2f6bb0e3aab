"""Write the packaged requirements anew from the two ledgers of the project.

Usage: python tools/write_requirements.py [SPECS [TARGET]]. SPECS holds agent-tool.tsv and rap.md and is shared/specs
beside the repository unless given; TARGET is the folder of the package unless given.
"""

import re
import sys
from collections.abc import Iterable
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
SPECS = ROOT.parent / "shared" / "specs"
REQUIREMENTS = ROOT / "src" / "agenttool" / "conformance" / "requirements"

Row = tuple[str, ...]
AREA_COLUMNS = ("area", "title")
AGENT_TOOL_COLUMNS = ("id", "level", "source", "requirement", "check")
RAP_COLUMNS = ("id", "level", "marks", "who", "source", "requirement")
AGENT_TOOL_COUNT = 371
RAP_COUNT = 243

# The ledger names its areas only by code.
AGENT_TOOL_TITLES = {
    "MODEL": "Layers and core objects",
    "DECL": "Tool declaration",
    "IFACE": "Tool interface",
    "SURF": "Tool surface",
    "IO": "Input and output contracts",
    "EXEC": "Execution profile",
    "PIPE": "Execution pipeline",
    "HOOK": "Hooks",
    "PERM": "Permission",
    "INV": "Invocation",
    "SCHED": "Scheduling",
    "DEFER": "Deferred tools and search",
    "PROG": "Progress and cancellation",
    "RES": "Result",
    "PERS": "Result persistence",
    "REF": "Resource and artifact refs",
    "ERR": "Errors",
    "EVT": "Events",
    "INTEROP-MCP": "MCP",
    "INTEROP-OPENAPI": "OpenAPI",
    "INTEROP-FUNC": "Provider function calling",
    "INTEROP-A2A": "Peer agents",
    "INTEROP-CLI": "Command line",
    "INTEROP-BROWSER": "Browser",
    "INTEROP-TELEM": "Telemetry",
    "ACC": "Acceptance scenarios",
    "VER": "Version compatibility",
}

# The ledger names its areas only by section heading.
RAP_AREAS = {
    "3.1": "TRANSPORT",
    "3.2": "DISPATCH",
    "3.3": "RECEIVE",
    "3.4": "RESULT",
    "3.5": "ACCEPT",
    "3.6": "DELIVER",
    "3.7": "LIFECYCLE",
    "3.8": "TOOLSETS",
    "3.9": "SUBSCRIPTIONS",
    "3.10": "OAUTH",
    "3.11": "CHOICE",
    "3.12": "VIEWS",
    "3.13": "CANCELLATION",
    "3.14": "CLOSURE",
    "3.15": "MIGRATION",
    "3.16": "SECURITY",
    "3.17": "DERIVED",
}
HEADING = re.compile(r"### (?P<section>3\.\d+) (?P<title>.+)")
RULE = re.compile(
    r"- (?P<id>RAP-\d{3}) \| (?P<level>[A-Z ]+?)(?P<reading> ~)? \| (?P<who>[^|]+) \| "
    r"(?P<derived>\{derived\} )?(?P<rule>[^|]+?)(?P<seed> \[seed\])?(?: \| (?P<source>[^|]+))?"
)


def read_agent_tool(ledger: str) -> dict[str, list[Row]]:
    """Sort the rows of agent-tool.tsv by area, which then needs no column of its own."""
    header, *lines = ledger.splitlines()
    columns = header.split("\t")
    areas: dict[str, list[Row]] = {area: [] for area in AGENT_TOOL_TITLES}
    for line in lines:
        row = dict(zip(columns, line.split("\t"), strict=True))
        areas[row["area"]].append(tuple(row[column] for column in AGENT_TOOL_COLUMNS))
    return areas


def read_rap(ledger: str) -> tuple[dict[str, str], dict[str, list[Row]]]:
    """Sort the rules of rap.md by sub-section, and give each area the heading it had as its title."""
    titles: dict[str, str] = {}
    areas: dict[str, list[Row]] = {}
    area = ""
    for line in ledger.splitlines():
        if heading := HEADING.fullmatch(line):
            area = RAP_AREAS[heading["section"]]
            titles[area] = f"{heading['section']} {heading['title'].replace('`', '')}"
            areas[area] = []
        elif line.startswith("- RAP-"):
            areas[area].append(read_rule(line))
    return titles, areas


def read_rule(line: str) -> Row:
    """Split one rule; the markers leave the sentence and become the `marks` column."""
    rule = RULE.fullmatch(line)
    if rule is None:
        message = f"rule must read 'id | level | who | rule | source', got {line!r}; mend the ledger or this tool"
        raise SystemExit(message)
    marks = " ".join(mark.strip() for mark in rule.group("reading", "derived", "seed") if mark)
    return (rule["id"], rule["level"], marks, rule["who"], rule["source"] or "", rule["rule"])


def write_standard(folder: Path, columns: Row, titles: dict[str, str], areas: dict[str, list[Row]]) -> None:
    """Replace every table of one standard, so that a dropped area leaves no file behind."""
    folder.mkdir(parents=True, exist_ok=True)
    for stale in folder.glob("*.tsv"):
        stale.unlink()
    write_table(folder / "areas.tsv", AREA_COLUMNS, titles.items())
    for area, rows in areas.items():
        write_table(folder / f"{area.lower().replace('-', '_')}.tsv", columns, rows)


def write_table(path: Path, columns: Row, rows: Iterable[Row]) -> None:
    """Write tab-separated lines without any quoting, so that a diff shows the sentence as it is."""
    path.write_text("".join("\t".join(row) + "\n" for row in (columns, *rows)), encoding="utf-8")


def main() -> None:
    """Rewrite the tables, and stop before the first one if a ledger does not have the known number of rows."""
    given = [Path(argument) for argument in sys.argv[1:]]
    specs, target = (*given, *(SPECS, REQUIREMENTS)[len(given) :])
    if not specs.is_dir():
        message = f"the ledgers must be at hand, found no folder {str(specs)!r}; name it: write_requirements.py SPECS"
        raise SystemExit(message)
    agent_tool = read_agent_tool((specs / "agent-tool.tsv").read_text(encoding="utf-8"))
    rap_titles, rap = read_rap((specs / "rap.md").read_text(encoding="utf-8"))
    counts = tuple(sum(map(len, areas.values())) for areas in (agent_tool, rap))
    if counts != (AGENT_TOOL_COUNT, RAP_COUNT):
        message = f"expected {AGENT_TOOL_COUNT} and {RAP_COUNT} rows, got {counts!r}; if meant, raise the counts here"
        raise SystemExit(message)
    write_standard(target / "agent_tool", AGENT_TOOL_COLUMNS, AGENT_TOOL_TITLES, agent_tool)
    write_standard(target / "rap", RAP_COLUMNS, rap_titles, rap)
    print(f"wrote {counts[0]} requirements of Agent Tool and {counts[1]} of RAP below {target}")


if __name__ == "__main__":
    main()
