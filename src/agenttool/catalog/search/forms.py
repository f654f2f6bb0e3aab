"""Other forms of the same word, which no rule of endings joins: short ones, irregular ones, a deed and its noun."""

from functools import cache

from agenttool.catalog.search.words import stem

_SHORT = """
acct account; addr address; admin administrator; advert advertisement; app application; attr attribute
auth authentication authorization authenticate authorize; avg average; calc calculate; cfg config configuration
char character; cmd command; col column; conn connection connect; coord coordinate; crypto cryptocurrency; db database
del delete; desc description; dest dst destination; dev developer development; diff difference; dir directory
doc document documentation; elem element; env environment; err error; exec execute execution; fav favorite favourite
fn func function; freq frequency; gen generate; geo geographic geolocation; hist history; idx index; img image
info information; init initialize; int integer; k8s kubernetes; lang language; lat latitude; lib library; loc location
lng lon longitude; math mathematics; max maximum; mem memory; mgmt management; min minimum; msg message; num number
obj object; org organization organisation; param parameter; pic picture; pkg package; pos position; prev previous
prob probability; proc process; prod production; prop property; pwd passwd password; qty quantity; rand random
ref reference; repo repository; req request; spec specification; src source; std standard; str string; svc service
sync synchronize; temp temperature; tmp temporary; tv television; txn transaction; tz timezone; usr user; util utility
val value; var variable; vid video; vol volume; wiki wikipedia
"""

_DEED_AND_NOUN = """
admit admission; agree agreement; analyze analyse analysis analytics; approve approval
arrive arrival; assign assignment; behavior behaviour; bear born birth birthday; choose choice; classify classification
compare comparison; compose composition; convert conversion; decide decision; deploy deployment; describe description
destroy destruction; die death; divide division; encrypt encryption; enroll enrollment; exclude exclusion
expand expansion; explain explanation; extend extension; fly flight; grow growth; identify identification
include inclusion; introduce introduction; invert inversion; know knowledge; lose loss; marry marriage
measure measurement; modify modification; multiply multiplication; notify notification; pay payment; permit permission
produce production; prove proof; publish publication; reduce reduction; register registration; remove removal
renew renewal; replace replacement; resolve resolution; reverse reversal; sell sale; settle settlement; ship shipment
simplify simplification; solve solution; specify specification; submit submission; subscribe subscription
summarize summary; synthesize synthesis; transmit transmission; verify verification; weigh weight
deep depth; high tall height; long length; strong strength; wide width; far distance; fast speed velocity; old age
"""

_IRREGULAR = """
bought buy; sold sell; sent send; wrote written write; found find; made make; paid pay; built build; held hold
kept keep; left leave; lost lose; met meet; ran run; saw seen see; took taken take; went gone go; drove driven drive
flew flown fly; won win; spent spend; taught teach; drew drawn draw; chose chosen choose; spoke spoken speak
broke broken break; stole stolen steal; hid hidden hide; gave given give; shown show; grew grown grow
threw thrown throw; children child; women woman; men man; feet foot; teeth tooth; mice mouse; people person
lives life; indices index; matrices matrix; vertices vertex; criteria criterion; colour color; centre center
favourite favorite; catalogue catalog; licence license; grey gray; programme program; metre meter; litre liter
kilometre kilometer; theatre theater; airplane aeroplane plane; cancellation cancel
"""


def forms_of(word: str) -> tuple[str, ...]:
    """Give the other forms of a word; all are comparable words."""
    return _forms().get(word, ())


@cache
def _forms() -> dict[str, tuple[str, ...]]:
    found: dict[str, dict[str, None]] = {}
    for group in (_SHORT + _DEED_AND_NOUN + _IRREGULAR).replace("\n", ";").split(";"):
        words = dict.fromkeys(map(stem, group.split()))
        for word in words:
            found.setdefault(word, {}).update((other, None) for other in words if other != word)
    return {word: tuple(others) for word, others in found.items()}
