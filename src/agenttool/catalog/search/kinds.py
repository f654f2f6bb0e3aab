"""What a word is an example of: who speaks of rain may ask for the weather, and who speaks of yen for a currency."""

from functools import cache

from agenttool.catalog.search.words import stem

_KINDS = """
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
"""Everyday matters, and what people say who mean them; the other way round it does not hold."""


def kinds_of(word: str) -> tuple[str, ...]:
    """Give the kinds of thing that a word is an example of; all are comparable words."""
    return _by_example().get(word, ())


@cache
def _by_example() -> dict[str, tuple[str, ...]]:
    found: dict[str, dict[str, None]] = {}
    for line in _KINDS.strip().splitlines():
        kinds, _, examples = line.partition(":")
        for example in map(stem, examples.split()):
            found.setdefault(example, {}).update((stem(kind), None) for kind in kinds.split())
    return {example: tuple(kinds) for example, kinds in found.items()}
