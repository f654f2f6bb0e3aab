"""Words that mean much the same whatever a catalog is about, and the deeds that tools are named after.

The table is short on purpose: it holds what any two people would exchange for one another, and no trade's own words;
nor such as are one with another word once their endings are cut, as `compute` is with computer, and business with busy.
"""

from functools import cache

from agenttool.catalog.search.words import stem

_DEEDS = """
get fetch retrieve obtain show display view list describe read; find search lookup query locate; see; check; inspect; browse; tell; give
create add make insert generate register; new; build
delete remove erase drop destroy clear; purge wipe uninstall deregister
update edit modify change set adjust; rename patch configure alter replace
start launch run begin execute; invoke trigger
stop end terminate halt kill; shutdown
send deliver post; publish email notify
cancel abort revoke
enable activate
disable deactivate
import
export
upload
download
attach associate connect join assign
detach disassociate disconnect unassign
buy purchase order
book reserve reservation booking
"""  # noqa: E501 -- a deed is a line
"""One deed a line; within it, what may stand for one another is not parted by a semicolon."""

_SAME = """
pay payment
convert transform
compare difference diff
verify validate check
fix repair
copy duplicate clone
save store
choose select pick
merge combine
split divide
suggest recommend recommendation
translate translation language
movie film
picture photo image
song music
email mail
phone telephone
car vehicle
weather forecast
hotel accommodation
price cost fee fare
flight plane airline
house home apartment property
meeting appointment event
schedule calendar
job career employment
money cash
shop store
doctor physician
medicine drug medication
trip travel journey
restaurant dining
food meal
user account member
folder directory
error failure
message text sms
author writer
country nation
city town
street road
news headline article
address location place
route directions
task job
bug issue ticket
document file
password credential secret
server host machine
website site url
customer client
employee staff worker
invoice bill receipt
delivery shipping shipment parcel package
discount coupon promotion
comment reply
reminder alarm
"""

TELLING = 0
"""The first deed: to tell something."""

_ASKS = frozenset(["what", "which", "who", "whose", "where", "when", "how", "is", "are", "does", "do"])
"""A sentence that begins with one of them wants to be told something."""


def same_as(word: str) -> tuple[str, ...]:
    """Give the words that may stand for a word; all are comparable words."""
    return _synonyms().get(word, ())


def deed_of(word: str) -> int | None:
    """Tell which deed a word names, if it names one."""
    return deeds().get(word)


def asks(spelling: str) -> bool:
    """Tell whether a sentence that begins so is a question."""
    return spelling in _ASKS


@cache
def deeds() -> dict[str, int]:
    """Give all words that name a deed, each with its deed."""
    lines = (line.replace(";", "").split() for line in _DEEDS.strip().splitlines())
    return {stem(word): deed for deed, words in enumerate(lines) for word in words}


@cache
def _synonyms() -> dict[str, tuple[str, ...]]:
    found: dict[str, dict[str, None]] = {}
    for group in (_DEEDS.replace(";", "\n") + _SAME).splitlines():
        words = dict.fromkeys(map(stem, group.split()))
        for word in words:
            found.setdefault(word, {}).update((other, None) for other in words if other != word)
    return {word: tuple(others) for word, others in found.items()}
