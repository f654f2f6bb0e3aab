"""How the documentation site shows a page: commands and file names that tests read from comments become visible.

MkDocs calls `on_page_markdown` for every page. Links to files outside of `docs` become plain text, because the site
does not contain those files.
"""

import re
from typing import Protocol

_COMMAND = re.compile(r"<!-- tour:run (?P<command>[^>]+) -->\n```\n(?P<output>.*?)```", re.DOTALL)
_FILE = re.compile(r"<!-- (?:tour|example):file (?P<name>\S+) -->\n```(?P<language>[a-z]+)\n")
_OUTPUT = re.compile(r"<!-- tour:output -->\n```\n")
_OUTSIDE = re.compile(r"\[(?P<text>[^\]]+)\]\((?:\.\./)+(?!docs/)(?P<path>[^)]+)\)")


_TABLE_CODE = re.compile(r"(?<=\| )`[^`\n]*`(?= \|)")


class Page(Protocol):
    """What is used of a page of MkDocs."""

    @property
    def file(self) -> "PageFile":
        """The file of the page."""
        ...


class PageFile(Protocol):
    """What is used of a file of MkDocs."""

    @property
    def src_uri(self) -> str:
        """Its path below `docs`."""
        ...


def on_page_markdown(markdown: str, *, page: Page, **options: object) -> str:
    """Return the text of a page as the site shows it."""
    markdown = _COMMAND.sub(lambda run: f"```console\n$ {run['command']}\n{run['output']}```", markdown)
    markdown = _FILE.sub(lambda file: f'```{file["language"]} title="{file["name"]}"\n', markdown)
    markdown = _OUTPUT.sub('```text title="Output"\n', markdown)
    markdown = _TABLE_CODE.sub(lambda code: code[0].replace("\\|", "|"), markdown)  # GitHub needs the escape
    depth = page.file.src_uri.count("/")
    return _OUTSIDE.sub(lambda link: link[0] if _ups(link[0]) <= depth else link["text"], markdown)


def _ups(link: str) -> int:
    """Return how many folders up a link begins."""
    return link.count("../")
