"""`agenttool verify`: unchanged journals, changed ones, and pinned heads."""

import json
import re
import shutil
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest
from project_settings import write_settings

from agenttool.codec import json_bytes
from agenttool.stores.sqlite.fact_rows import link


def spoil(path, statement, values=()):
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        assert connection.execute(statement, values).rowcount


def forge(path, change):
    """Change the facts and compute the chain again, as a forger would."""
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        (chained,) = connection.execute("SELECT hash FROM anchors").fetchone()
        for position, printed in connection.execute("SELECT last, lines FROM facts ORDER BY last").fetchall():
            now = change(printed)
            chained = link(chained, now)
            connection.execute("UPDATE facts SET lines = ?, hash = ? WHERE last = ?", (now, chained, position))
        connection.execute("UPDATE heads SET hash = ?", (chained,))


@pytest.fixture
def path(journal, tmp_path):
    return tmp_path / "agenttool.db"


def test_an_unchanged_journal_has_no_flaws(run, journal):
    outcome = run("verify")
    assert outcome.exit_code == 0
    printed = dict(line.split(maxsplit=1) for line in outcome.stdout.splitlines())
    assert printed["flaws"] == "0"
    assert printed["calls"] == f"{len(journal) + 1}, of which {len(journal) + 1} ended"
    assert printed["digests"] == "10 checked, 2 sealed: their tools have sensitive fields"


def test_a_flaw_is_printed_with_its_position_and_fails_the_command(run, path):
    with closing(sqlite3.connect(path)) as connection:
        (last,) = connection.execute("SELECT min(last) FROM facts").fetchone()
    spoil(path, "UPDATE facts SET lines = replace(lines, 'math.add', 'math.odd') WHERE last = ?", (last,))
    outcome = run("verify")
    assert outcome.exit_code == 1
    line = outcome.stdout.splitlines()[1].split()
    assert line[:2] == [str(last), "hash"]
    (flaw, summary) = [json.loads(each) for each in run("verify", "--json").stdout.splitlines()]
    assert (flaw["type"], flaw["position"], len(flaw["expected"])) == ("flaw", last, 64)
    assert summary["flaws"] == 1


def test_an_answer_about_another_input_is_a_flaw_in_an_intact_chain(run, path, journal):
    def lie(printed):
        if b'"answers":' not in printed or journal["approved"].encode() not in printed:
            return printed
        return re.sub(rb'"input_digest":"sha256:[0-9a-f]{64}"', b'"input_digest":"sha256:' + b"0" * 64 + b'"', printed)

    forge(path, lie)
    (flaw, _) = [json.loads(each) for each in run("verify", "--json").stdout.splitlines()]
    assert (flaw["what"], flaw["found"]) == ("digest", "sha256:" + "0" * 64)


def test_a_second_result_is_a_flaw_in_an_intact_chain(run, path):
    result = {"record_type": "tool_result", "schema_version": "0.2.0", "result_id": "res_x", "invocation_id": "inv_x"}
    result |= {"status": "succeeded", "created_at": "2026-05-08T00:00:00Z"}
    forge(
        path,
        lambda printed: printed.replace(
            b'"outcome":"canceled"}},[]', b'"outcome":"canceled"}},[' + json_bytes(result) + b"]"
        ),
    )
    (flaw, _) = [json.loads(each) for each in run("verify", "--json").stdout.splitlines()]
    assert (flaw["what"], flaw["expected"], flaw["found"]) == ("result", "none before its end", "1")


def test_a_call_that_begins_twice_is_a_flaw(run, path, journal):
    last, first = journal["canceled"].encode(), journal["failed"].encode()
    forge(path, lambda printed: printed.replace(last, first))
    spoil(path, "UPDATE facts_of_call SET invocation_id = ? WHERE invocation_id = ?", (first.decode(), last.decode()))
    flaws = [json.loads(each) for each in run("verify", "--json").stdout.splitlines()[:-1]]
    assert [each["what"] for each in flaws] == ["call"]


def test_facts_cut_from_the_end_are_detected(run, path):
    with closing(sqlite3.connect(path)) as connection:
        (last,) = connection.execute("SELECT max(last) FROM facts").fetchone()
    spoil(path, "DELETE FROM facts WHERE last = ?", (last,))
    flaws = [json.loads(each) for each in run("verify", "--json").stdout.splitlines()[:-1]]
    assert {(each["position"], each["what"]) for each in flaws} >= {(last, "head")}


def test_a_call_whose_end_was_deleted_is_detected_as_ownerless(run, path, journal):
    with closing(sqlite3.connect(path)) as connection:
        query = "SELECT max(last) FROM facts_of_call WHERE invocation_id = ?"
        (last,) = connection.execute(query, (journal["canceled"],)).fetchone()
    for table in ("facts", "facts_of_call"):
        spoil(path, f"DELETE FROM {table} WHERE last >= ?", (last,))
    spoil(path, "REPLACE INTO heads SELECT 1, last, hash FROM facts ORDER BY last DESC LIMIT 1")
    flaws = [json.loads(each) for each in run("verify", "--json").stdout.splitlines()[:-1]]
    assert [(each["what"], each["expected"]) for each in flaws] == [("end", f"one for {journal['canceled']}")]


def test_a_pinned_head_detects_a_chain_that_was_cut(run, path, tmp_path):
    assert run("verify", "--write-head", "head.json").exit_code == 0
    head = json.loads((tmp_path / "head.json").read_text())
    spoil(path, "DELETE FROM facts WHERE last > (SELECT min(last) FROM facts)")
    spoil(path, "DELETE FROM facts_of_call")
    spoil(path, "REPLACE INTO heads SELECT 1, position, hash FROM anchors")
    assert run("verify").exit_code == 0, "a chain that ends early is a chain"
    for words in (["--pin", "head.json"], ["--head", f"{head['position']}:{head['hash']}"]):
        outcome = run("verify", *words, "--json")
        assert outcome.exit_code == 1
        assert json.loads(outcome.stdout.splitlines()[0])["what"] == "pin"


def test_a_deleted_head_is_a_flaw(run, path):
    spoil(path, "DELETE FROM heads")
    outcome = run("verify", "--json")
    flaws = [json.loads(each) for each in outcome.stdout.splitlines()[:-1]]
    assert outcome.exit_code == 1
    assert (flaws[0]["what"], flaws[0]["found"]) == ("head", "none")


@pytest.fixture
def payloads(day, path):
    """The stored bytes of that journal, beside it."""
    return Path(shutil.copytree(f"{day[0]}-payloads", f"{path}-payloads"))


def test_changed_payloads_are_flaws_and_missing_payloads_are_counted(run, payloads):
    (stored,) = [each for each in payloads.rglob("*") if each.is_file() and b"line 79" in each.read_bytes()]
    assert "1 checked" in run("verify").stdout
    stored.write_bytes(stored.read_bytes().replace(b"bread", b"cakes"))
    outcome = run("verify", "--json")
    flaw, summary = map(json.loads, outcome.stdout.splitlines())
    assert (outcome.exit_code, flaw["what"], summary["payloads"]) == (1, "payload", 1)
    stored.unlink()
    outcome = run("verify", "--json")
    (summary,) = map(json.loads, outcome.stdout.splitlines())
    assert (outcome.exit_code, summary["payloads"], summary["gone"]) == (0, 0, 1)


def test_payloads_may_be_elsewhere(run, payloads, tmp_path):
    folder = payloads.rename(tmp_path / "elsewhere")
    assert "1 missing" in run("verify").stdout
    assert "1 checked" in run("verify", "--payloads", str(folder)).stdout
    write_settings(tmp_path / "agenttool.toml", '[store]\nurl = "sqlite:agenttool.db"\npayloads = "elsewhere"\n')
    assert "1 checked" in run("verify").stdout


def test_a_spoiled_journal_is_not_pinned(run, path, tmp_path):
    spoil(path, "DELETE FROM facts WHERE last = (SELECT last FROM facts LIMIT 1 OFFSET 2)")
    assert run("verify", "--write-head", "head.json").exit_code == 1
    assert not (tmp_path / "head.json").exists()


@pytest.mark.usefixtures("journal")
@pytest.mark.parametrize(
    ("words", "printed"),
    [
        (["--head", "3:ab"], "POSITION:HASH"),
        (["--pin", "gone.json"], "gone.json"),
        (["--pin", "agenttool.db"], "holds no head"),
        (["--pin", "a", "--head", "b"], "two heads"),
        (["--write-head", "gone/head.json"], "gone/head.json"),
    ],
)
def test_an_unusable_head_is_rejected(run, words, printed):
    outcome = run("verify", *words)
    assert outcome.exit_code == 2
    assert printed in outcome.stderr


@pytest.mark.usefixtures("journal")
@pytest.mark.parametrize("columns", [40, 60, 80])
def test_the_head_is_on_one_line_at_any_width(run, columns):
    head = json.loads(run("verify", "--json").stdout)["head"]
    lines = run("verify", COLUMNS=str(columns)).stdout.splitlines()
    assert f"head      {head['position']}:{head['hash']}" in lines
