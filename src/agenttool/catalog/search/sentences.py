"""Where a sentence ends, and where one wish of a query ends and the next begins."""

import re

_GOES_ON_TO = """
add analyze assign book build buy calculate cancel check compare compute convert create delete describe determine
disable download edit email enable estimate explain export fetch figure find generate get give identify import inform
insert launch let list locate look make merge modify move notify open order pay plan play post provide publish read
recommend register remind remove rename reserve retrieve run save schedule search see select send set share show start
stop store suggest summarize tell translate turn update upload verify view write
"""
_VERB = f"(?=(?:{'|'.join(_GOES_ON_TO.split())})\\s)"

_MARK = r"(?<![.!?;])[.!?;]+(?:\s+|$) | \n | [。！？；]"  # noqa: RUF001 -- Chinese sentences end, too
_SENTENCE_ENDS = re.compile(_MARK, re.VERBOSE)
_WISH_ENDS = re.compile(
    rf"""{_MARK}
    | ,\s+(?:and|but|then|also)\s | ,?\s(?:and\s+)?(?:then|also|after\ that|afterwards|finally)\s
    | ,\s+{_VERB} | \sand\s+{_VERB}
    | [，,]?(?:然后|接着|另外|此外|并且) | ，[并再]""",  # noqa: RUF001 -- and go on
    re.IGNORECASE | re.VERBOSE,
)
"""A mark, or a word that goes on to something else; of a list of things, such as cats and dogs, all are one wish."""


def statements_of(text: str) -> list[str]:
    """Cut what is said of a tool where its sentences end."""
    return _SENTENCE_ENDS.split(text)


def sentences_of(query: str) -> list[str]:
    """Cut a query where its sentences end, and where one goes on to another wish."""
    return _WISH_ENDS.split(query)
