"""The packaged requirements are complete, well-formed, and word for word those of the two standards."""

from collections import Counter
from hashlib import sha256
from importlib.resources import files
from pathlib import Path

from requirement_marks import find_requirement, load_requirements

from agenttool.conformance.ledger import Mark, Obligation, Requirement, Standard, load_areas

PACKAGED = Path(str(files("agenttool.conformance") / "requirements"))


def requirements_of(standard: Standard) -> list[Requirement]:
    return [requirement for requirement in load_requirements() if requirement.standard is standard]


def tables_below(folder: Path) -> dict[str, str]:
    return {str(path.relative_to(folder)): path.read_text(encoding="utf-8") for path in folder.rglob("*.tsv")}


def agent_tool_line(requirement: Requirement) -> str:
    facts = (requirement.id, requirement.area, requirement.level, requirement.source, requirement.sentence)
    return "\t".join((*facts, requirement.check or ""))


def rap_line(requirement: Requirement) -> str:
    level = f"{requirement.level} ~" if Mark.READING in requirement.marks else requirement.level
    sentence = f"{{derived}} {requirement.sentence}" if Mark.DERIVED in requirement.marks else requirement.sentence
    sentence = f"{sentence} [seed]" if Mark.SEED in requirement.marks else sentence
    source = [requirement.source] if requirement.source else []
    return "- " + " | ".join([requirement.id, level, str(requirement.who), sentence, *source])


def test_every_row_of_both_ledgers_is_in_the_package():
    assert Counter(requirement.standard for requirement in load_requirements()) == {
        Standard.AGENT_TOOL: 371,
        Standard.RAP: 243,
    }


def test_a_prohibition_is_counted_with_the_demand_of_the_same_word():
    counts = Counter((requirement.standard, requirement.level.obligation) for requirement in load_requirements())
    assert counts == {
        (Standard.AGENT_TOOL, Obligation.MUST): 51,
        (Standard.AGENT_TOOL, Obligation.SHOULD): 303,
        (Standard.AGENT_TOOL, Obligation.MAY): 17,
        (Standard.RAP, Obligation.MUST): 139,
        (Standard.RAP, Obligation.SHOULD): 83,
        (Standard.RAP, Obligation.MAY): 21,
    }


def test_ids_and_area_names_are_unique_over_both_standards():
    assert max(Counter(requirement.id for requirement in load_requirements()).values()) == 1
    assert max(Counter(area.name for area in load_areas()).values()) == 1


def test_every_requirement_says_something_and_sits_in_its_own_area():
    for area in load_areas():
        assert area.requirements
        for requirement in area.requirements:
            assert (requirement.standard, requirement.area) == (area.standard, area.name)
            assert requirement.sentence == requirement.sentence.strip() != ""
            assert (requirement.check is None) == (requirement.standard is Standard.RAP)
            assert (requirement.who is None) == (requirement.standard is Standard.AGENT_TOOL)
            assert (requirement.source == "") == (Mark.DERIVED in requirement.marks)


def test_no_packaged_table_is_left_unread_or_too_long_to_open():
    folders = {Standard.AGENT_TOOL: "agent_tool", Standard.RAP: "rap"}
    read = {f"{folders[area.standard]}/{area.name.lower().replace('-', '_')}.tsv" for area in load_areas()}
    tables = tables_below(PACKAGED)
    assert tables.keys() == read | {f"{folder}/areas.tsv" for folder in folders.values()}
    assert max(len(text.splitlines()) for text in tables.values()) < 250


def test_a_requirement_is_found_by_its_exact_id_only():
    found = find_requirement("RAP-030")
    assert found is not None
    assert (found.level, found.marks, found.who) == ("MUST NOT", (Mark.READING, Mark.SEED), "runtime")
    assert find_requirement("rap-030") is None


def test_the_packaged_requirements_are_word_for_word_those_of_the_standards():
    lines = {Standard.AGENT_TOOL: agent_tool_line, Standard.RAP: rap_line}
    digests = {
        standard: sha256("\n".join(map(line, requirements_of(standard))).encode()).hexdigest()
        for standard, line in lines.items()
    }
    assert digests == {
        Standard.AGENT_TOOL: "177b6439fe391026c15b12c6e31d90fc1fe41368fa34c0b9d1577d4f1d1f8160",
        Standard.RAP: "1d984c3fc594ce4157c71169bdc9f47d13641d21841045ed7d797aaf9db2ea0c",
    }
