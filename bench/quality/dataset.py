"""The labelled set of tools and requests, and variants of it.

The requests were written from tasks, independently of the descriptions of the tools.
"""

import random
import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

FOLDER = Path(__file__).parent


@dataclass(frozen=True, slots=True)
class Tool:
    """The fields of a tool that a ranker sees."""

    namespace: str
    name: str
    description: str
    parameters: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Request:
    """A user's request, and the places of the tools of which one answers it."""

    query: str
    wanted: frozenset[int]


def tools() -> list[Tool]:
    """Read the catalog, one tool a line: `namespace.name | description | parameters`."""
    lines = [line for path in sorted((FOLDER / "catalog").glob("*.txt")) for line in path.read_text().splitlines()]
    return [_tool(line) for line in lines]


def requests(catalog: Sequence[Tool]) -> list[Request]:
    """Read the requests, one a line: `request | name, name`."""
    places = {f"{tool.namespace}.{tool.name}": place for place, tool in enumerate(catalog)}
    found: list[Request] = []
    for line in (FOLDER / "queries.txt").read_text().splitlines():
        query, _, names = line.rpartition("|")
        found.append(Request(query.strip(), frozenset(places[name.strip()] for name in names.split(","))))
    return found


def _tool(line: str) -> Tool:
    qualified, description, parameters = (cell.strip() for cell in line.split("|"))
    namespace, _, name = qualified.partition(".")
    return Tool(namespace, name, description, tuple(parameters.split()))


_PADDING = """
This endpoint requires authentication with a valid API key passed in the header.
Results are paginated; use the cursor returned by the previous request to get the next page.
Rate limits apply: at most 60 requests per minute per user.
Returns an object with an id, a status and the time when it was created.
If the resource cannot be found an error with code 404 is returned.
Example: {"name": "John Smith", "city": "Paris", "date": "2024-05-01", "email": "john@example.com"}.
Note that some fields are only available on premium plans.
For more information see the documentation or contact support.
Useful for building dashboards, reports, notifications and integrations with other apps.
The response contains a list of items, each with title, description, price, image and url.
Do not use it to send messages or to delete files; there are other functions for that.
Works with movies, music, sports, weather, news and many other topics.
"""

_SMALL_TALK = """
Hi there, I hope you are doing well today.
My name is Daniel and I live in Denver with my wife and two kids.
We have been really busy lately because of the new house and the school year that just started.
I was talking to a friend at the office and he told me that an assistant could take care of this kind of thing.
Honestly I am not very good with computers, so please be patient with me.
It would be great if you could do that before Friday, since my boss is asking for it.
Last time it took me a whole afternoon and I missed dinner with my family.
Thank you so much in advance, I really appreciate your help with this!
If anything is unclear just let me know and I will give you more details.
I have a meeting at 10 and a flight in the evening, so there is not much time.
I already looked for it on the web but could not find anything useful.
As a marketing manager at a mid-sized company I have to deal with lots of different requests every day.
"""


def wordy(catalog: Sequence[Tool]) -> list[Tool]:
    """Describe every tool at length, as generated documentation does."""
    chance = random.Random(1)  # noqa: S311 -- the same words in every run
    padding = _PADDING.strip().splitlines()
    return [
        replace(tool, description=" ".join([tool.description, *chance.sample(padding, chance.randint(3, 8))]))
        for tool in catalog
    ]


def bare(catalog: Sequence[Tool]) -> list[Tool]:
    """Reduce every tool to its name in camel case and its parameters."""
    return [replace(tool, name=_camel(tool.name), description="") for tool in catalog]


def talkative(requests: Sequence[Request]) -> list[Request]:
    """Embed every request in a text of 50 to 200 words."""
    chance = random.Random(2)  # noqa: S311 -- the same words in every run
    talk, found = _SMALL_TALK.strip().splitlines(), list[Request]()
    for each in requests:
        around: list[str] = chance.sample(talk, chance.randint(4, 10))
        around.insert(chance.randint(0, len(around)), f"{each.query.rstrip('.')}.")
        found.append(replace(each, query=" ".join(around)))
    return found


def several(requests: Sequence[Request]) -> list[Request]:
    """Join two or three requests."""
    chance = random.Random(4)  # noqa: S311 -- the same words in every run
    found: list[Request] = []
    for each in requests:
        wishes = [each, *chance.sample(list(requests), chance.randint(1, 2))]
        query = " ".join(f"{wish.query.rstrip('.?!')}." for wish in wishes)
        found.append(Request(query, frozenset[int]().union(*(wish.wanted for wish in wishes))))
    return found


def misspelt(requests: Sequence[Request]) -> list[Request]:
    """Swap two letters of the longest word."""
    chance = random.Random(3)  # noqa: S311 -- the same words in every run
    return [replace(each, query=_slip(each.query, chance)) for each in requests]


def _slip(query: str, chance: random.Random) -> str:
    word = max(re.findall(r"[a-z]+", query) or [""], key=len)
    if len(word) < 6:
        return query
    at = chance.randint(1, len(word) - 3)
    return query.replace(word, word[:at] + word[at + 1] + word[at] + word[at + 2 :], 1)


def _camel(name: str) -> str:
    first, *others = name.split("_")
    return first + "".join(other[:1].upper() + other[1:] for other in others)
