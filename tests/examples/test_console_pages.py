"""The pages with screens, followed as a reader would: files written, commands typed, screens compared."""

import os
import sys
from pathlib import Path

import pytest
from console_pages import Reader

pytestmark = pytest.mark.slow

DOCS = Path(__file__).parents[2] / "docs"
PAGES = [page for page in sorted(DOCS.rglob("*.md")) if "```console\n" in page.read_text(encoding="utf-8")]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_a_reader_who_follows_the_page_sees_its_screens(page, tmp_path):
    environment = {**os.environ, "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"}
    reader = Reader(tmp_path, environment)
    try:
        reader.follow(page.read_text(encoding="utf-8"))
    finally:
        reader.close()


def test_a_screen_that_differs_is_found(tmp_path):
    reader = Reader(tmp_path, dict(os.environ))
    reader.follow("```console\n$ echo 12 ms\n3 ms\n```\n")
    with pytest.raises(AssertionError, match="the page shows:\nthree"):
        reader.follow("```console\n$ echo four\nthree\n```\n")
    reader.close()
