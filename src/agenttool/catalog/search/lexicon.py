"""English word tables: filler words, synonyms, and what a word is an example of.

The tables hold everyday words only. A group must not contain two words that have the same stem.
"""

from collections.abc import Iterable, Iterator
from functools import cache

from agenttool.catalog.search.tokens import stem

_FUNCTION_WORDS = """
a about after all also although always am among an and another any anybody anyone anything are aren as at away
be because been before being both but by came can cannot come could couldn did didn do does doesn doing don done
during each either else enough etc even ever every everyone everything few for from further had has hasn have haven
having he her here hers herself him himself his how however i if in indeed instead into is isn it its itself just
least less let lets ll lot lots m many may maybe me might mine more most much must my myself neither never no nor not
nothing now of off often ok okay on once one ones only onto or other others otherwise our ours out over own per
perhaps quite rather re really s same several shall she should since so some somebody somehow someone something
somewhere soon still such t than that the their theirs them themselves then there therefore these they thing things
this those though through thus to together too toward towards under unless until up upon us ve very via was wasn we
well were what whatever when whenever where wherever whether which while who whoever whole whom whose why will with
within without won would yes yet you your yours yourself
"""

_WORDS_OF_ASKING = """
able actually additionally advance appreciate ask asked asking asks assist assistance basically best better bit bunch
certain certainly considering curious currently dear decided desire eager ensure exactly excited feel figure finally
glad good great guess happen happy hello help helped helpful helping helps hey hi hope hopefully hoping ideally
imagine important including interested interesting keen kind kindly kinds knowing lastly later like liked likely
little luck mean means mention mind moreover need needed needing needs nice particular perform performed performs
personally please plus possible possibly prefer preferably pretty probably purpose quick quickly ready recently
regarding related require required requires secondly seem seems similar simply situation sorry specific specifically
suitable sure thank thanks think thinking thought tool tools tried tries try trying understand unfortunately use used
useful uses using usually utilize various want wanted wanting wants way ways wish wished wishes wonder wonderful
wondering
"""

_WEAK_WORDS = """
afternoon again ago always april august back believe best big boss busy call called check colleague colleagues company
dad day days deal december down early end evening everybody family february find first found friday friend get gets
getting give given gives giving go goes going got home hour hours husband issue january july june keep kids know last
late learn live lives living long look looked looking looks love make makes making manage march minute minutes missed
mom monday month months morning name named new next night november obtain october old people person place plan
planning problem project provide provided provides providing put question right saturday say see seen september show
showing small start started sunday take takes taking talk talking team tell tells thursday time today told tomorrow
tonight tuesday wednesday week weekend weeks wife work working works year years yesterday
"""

FILLER_WORDS = frozenset((_FUNCTION_WORDS + _WORDS_OF_ASKING).split())
"""Words that express that something is requested, not what. They only decide between tools that are otherwise equal."""

WEAK_WORDS = frozenset(_WEAK_WORDS.split())
"""Words that may name what a tool does, but mostly are small talk."""

_ACTIONS = """
get fetch retrieve obtain show display view list describe read; find search lookup query locate
create add make insert generate register; delete remove erase drop destroy clear
update edit modify change set adjust; start launch run begin execute; stop end terminate halt kill
send deliver post; cancel abort revoke; enable activate; disable deactivate
attach associate connect join assign; detach disassociate disconnect unassign remove
buy purchase order; book reserve reservation booking
"""

_SYNONYMS = """
pay payment; convert transform; compare difference diff; verify validate check; fix repair; copy duplicate clone
save store; choose select pick; merge combine; split divide; suggest recommend recommendation
translate translation language; movie film; picture photo image; song music; email mail; phone telephone; car vehicle
weather forecast; hotel accommodation; price cost fee fare; flight plane airline; house home apartment property
meeting appointment event; schedule calendar; job career employment; money cash; shop store; doctor physician
medicine drug medication; trip travel journey; restaurant dining; food meal; user account member; folder directory
error failure; message text sms; author writer; country nation; city town; street road; news headline article
address location place; route directions; task job; bug issue ticket; document file; password credential secret
server host machine; website site url; customer client; employee staff worker; invoice bill receipt
delivery shipping shipment parcel package; discount coupon promotion; comment reply; reminder alarm; again re
"""

_CATEGORIES = """
air quality: pollution smog pm2 pm25
alarm reminder: wake remind
animal: dog cat bird pet
area shape geometry: triangle circle rectangle square radius
bank account: balance deposit withdraw
biology: gene dna cell species
book: novel isbn author
calculate math: sum plus minus multiply divide percent percentage add subtract equation
calendar event: appointment meeting
chemistry: molecule atom compound
city location: paris london tokyo berlin madrid rome sydney boston chicago seattle beijing shanghai mumbai delhi
city location: toronto dubai
code: python javascript typescript java
color: red green blue rgb hex
container: docker kubernetes pod
country location: france germany italy spain japan china india canada australia brazil mexico usa uk russia
cryptocurrency crypto coin: bitcoin ethereum btc eth dogecoin blockchain token
currency exchange: dollar euro yen pound rupee yuan peso franc usd eur gbp jpy cny inr cad aud chf forex
database query: sql mysql postgres postgresql mongodb sqlite
date: january february march april may june july august september october november december monday tuesday wednesday
date: thursday friday saturday sunday
definition dictionary: meaning define synonym antonym
distance length unit: mile kilometer km meter foot inch
domain: dns whois
earthquake: seismic magnitude
election: vote candidate president
email: inbox gmail
exercise workout fitness: gym muscle yoga
file: pdf csv docx xlsx txt
flight airport: airplane airline fly
fuel gas: gasoline petrol diesel
hash encode: md5 sha256 base64
health medical: symptom disease diagnosis blood patient
holiday: christmas easter thanksgiving
horoscope zodiac: astrology aries taurus gemini leo virgo libra scorpio sagittarius capricorn aquarius pisces
hotel: room stay lodging
image: png jpg jpeg photo
investment: portfolio bond fund
joke: funny laugh humor
language translate: french spanish german chinese japanese english italian portuguese korean russian arabic hindi
law legal: court lawsuit attorney
loan: mortgage borrow lend interest
map route directions: drive walk navigate way
movie: actor actress director imdb cinema
music: album artist playlist lyric singer band song
nutrition: calorie protein carb vitamin
phone: call dial
physics: force gravity acceleration energy
planet space: moon mars astronomy asteroid nasa
post social: tweet twitter instagram facebook
product shopping: amazon ebay cheap
property estate: rent apartment house bedroom
recipe food: ingredient cook dish meal dinner breakfast lunch cuisine
repository git: github gitlab commit branch
salary: wage income
show series: episode season netflix
sport game match: football soccer basketball baseball tennis cricket hockey nba nfl league
spreadsheet: excel xlsx
statistics: median variance deviation correlation regression
stock market: nasdaq ticker equity share dividend nyse
tax: irs
taxi ride: uber cab
temperature: celsius fahrenheit degree hot cold warm
timezone: gmt utc est pst
tracking shipment: parcel courier
traffic: jam commute
train: railway station
university school: college student
url web: http https www website link
video: youtube clip watch
volume unit: liter gallon
weather: rain raining rainy snow sunny cloudy storm wind windy humidity umbrella forecast climate temperature
weight mass unit: kilogram kg gram lb ounce
"""
"""Categories and their examples. An example finds its categories, but a category does not find its examples."""


def related_words(word: str) -> tuple[str, ...]:
    """Return the synonyms of a stemmed word, and the categories that it is an example of."""
    return _related().get(word, ())


@cache
def _related() -> dict[str, tuple[str, ...]]:
    found: dict[str, dict[str, None]] = {}
    for word, others in _pairs():
        found.setdefault(word, {}).update((other, None) for other in others if other != word)
    return {word: tuple(others) for word, others in found.items()}


def _pairs() -> Iterator[tuple[str, Iterable[str]]]:
    for group in (_ACTIONS + _SYNONYMS).replace("\n", ";").split(";"):
        words = [*map(stem, group.split())]
        yield from ((word, words) for word in words)
    for line in _CATEGORIES.strip().splitlines():
        categories, _, examples = line.partition(":")
        yield from ((example, map(stem, categories.split())) for example in map(stem, examples.split()))
