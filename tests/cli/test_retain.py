"""`agenttool retain`: what is too old goes, what is left is whole, and nothing goes that nobody named."""

import json
import shutil

import pytest


@pytest.fixture
def payloads(day, journal, tmp_path):
    return shutil.copytree(f"{day[0]}-payloads", tmp_path / "agenttool.db-payloads")


@pytest.mark.usefixtures("payloads")
def test_what_is_too_old_goes_and_the_rest_verifies(run, journal):
    head = json.loads(run("verify", "--json").stdout)["head"]
    told = json.loads(run("retain", "--payloads", "0", "--journal", "0", "--json").stdout)
    assert told["payloads"] > 0
    assert told["facts_up_to"] == head["position"]
    outcome = run("verify", "--head", f"{head['position']}:{head['hash']}")
    assert json.loads(run("verify", "--json").stdout)["anchor"]["position"] == told["facts_up_to"]
    assert f"from {told['facts_up_to'] + 1:,} on: older ones were let go" in outcome.stdout
    assert outcome.exit_code == 0, "an older head is good as long as its place is the anchor"
    assert run("show", journal["plain"]).exit_code != 0


@pytest.mark.usefixtures("payloads")
def test_a_result_whose_bytes_have_gone_still_says_what_they_were(run, journal):
    before = run("show", journal["large"]).stdout
    assert run("retain", "--payloads", "0").stdout.endswith("payloads went; all facts are left\n")
    assert run("show", journal["large"]).stdout == before
    assert "1 gone" in run("verify").stdout


@pytest.mark.usefixtures("payloads")
def test_what_is_young_enough_stays(run):
    before = run("export").stdout
    assert json.loads(run("retain", "--payloads", "1", "--journal", "1", "--json").stdout) == {
        "payloads": 0,
        "facts_up_to": 0,
    }
    assert run("export").stdout == before


@pytest.mark.usefixtures("payloads")
def test_settings_say_for_how_long_and_the_command_line_stands_before_them(run, tmp_path):
    settings = tmp_path / "agenttool.toml"
    settings.write_text('[store]\nurl = "sqlite:agenttool.db"\npayload_days = 0\njournal_days = 400\n')
    told = json.loads(run("retain", "--payloads", "3", "--json").stdout)
    assert told == {"payloads": 0, "facts_up_to": 0}
    assert json.loads(run("retain", "--json").stdout)["payloads"] > 0
    settings.write_text('[store]\nurl = "sqlite:agenttool.db"\npayload_days = "many"\n')
    outcome = run("retain")
    assert outcome.exit_code == 2
    assert "agenttool.toml:3: payload_days must be a number of days" in " ".join(outcome.stderr.split())


@pytest.mark.usefixtures("journal")
@pytest.mark.parametrize(
    ("words", "told"),
    [([], "nobody says"), (["--store", "gone.db", "--journal", "1"], "gone.db"), (["--journal", "-1"], "--journal")],
)
def test_what_cannot_be_done_is_told(run, words, told):
    outcome = run("retain", *words)
    assert outcome.exit_code == 2
    assert told in outcome.stderr
