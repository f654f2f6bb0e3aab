"""`agenttool store`: a store that an older version wrote."""

import shutil
from pathlib import Path

from agenttool.stores.sqlite.schema import VERSION

OLD = Path(__file__).parents[1] / "durable" / "stores" / "version-9.db"


def test_the_command_upgrades_a_store_and_the_commands_that_read_ask_for_it(run, tmp_path):
    file = Path(shutil.copy(OLD, tmp_path / "calls.db"))
    refused = run("log", "--store", str(file))
    assert refused.exit_code != 0
    assert "agenttool store upgrade --store" in refused.stderr
    assert file.read_bytes() == OLD.read_bytes()
    upgraded, again = (run("store", "upgrade", "--store", str(file)).stdout for _ in range(2))
    assert f"from schema 9 to {VERSION}" in upgraded
    assert f"has schema {VERSION} already" in again
    assert len(run("log", "--store", str(file), "--json").stdout.splitlines()) == 5
    assert run("verify", "--store", str(file)).exit_code == 0
