"""Progress bars: drawn for long work on a terminal only."""

import pytest

from agenttool.cli import progress
from agenttool.cli.progress import ByteBar, CountBar


@pytest.fixture
def terminal(monkeypatch):
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setattr(progress, "DELAY_S", -1)


def drawn(capsys, total):
    with ByteBar(total) as bar:
        for _ in range(3):
            bar.advance(1000)
    out, err = capsys.readouterr()
    assert out == ""
    return err


@pytest.mark.usefixtures("terminal")
@pytest.mark.parametrize("total", [3000, None])
def test_long_work_draws_a_bar_on_the_error_stream(capsys, total):
    assert "kB" in drawn(capsys, total)


def test_nothing_is_drawn_without_a_terminal(capsys, monkeypatch):
    monkeypatch.setattr(progress, "DELAY_S", -1)
    assert drawn(capsys, 3000) == ""


def test_short_work_draws_nothing(capsys, monkeypatch):
    monkeypatch.setenv("FORCE_COLOR", "1")
    assert drawn(capsys, 3000) == ""


@pytest.mark.usefixtures("terminal")
def test_a_hidden_bar_is_shown_again(capsys):
    with ByteBar(3000) as bar:
        bar.advance(1000)
        bar.hide()
        capsys.readouterr()
        bar.hide()
        assert capsys.readouterr().err == ""
        bar.advance(1000)
        assert "2.0/3.0 kB" in capsys.readouterr().err


@pytest.mark.usefixtures("terminal")
def test_a_count_bar_is_updated_in_batches(capsys):
    with CountBar(2 * CountBar.BATCH) as bar:
        for _ in range(CountBar.BATCH - 1):
            bar.advance()
        assert capsys.readouterr().err == ""
        bar.advance()
        assert f"{CountBar.BATCH}/{2 * CountBar.BATCH}" in capsys.readouterr().err
