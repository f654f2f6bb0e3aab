"""Words that say that somebody asks, and not for what; they are rare in catalogs, and would weigh most of all."""

_LITTLE = """
a about after again all also although always am among an and another any anybody anyone anything are aren as at away
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

_ASKING = """
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

_SAID_OF_BOTH = """
afternoon ago always april august back believe best big boss busy call called check colleague colleagues company dad
day days deal december down early end evening everybody family february find first found friday friend get gets
getting give given gives giving go goes going got home hour hours husband issue january july june keep kids know last
late learn live lives living long look looked looking looks love make makes making manage march minute minutes missed
mom monday month months morning name named new next night november obtain october old people person place plan
planning problem project provide provided provides providing put question right saturday say see seen september show
showing small start started sunday take takes taking talk talking team tell tells thursday time today told tomorrow
tonight tuesday wednesday week weekend weeks wife work working works year years yesterday
"""

REQUEST_WORDS = frozenset((_LITTLE + _ASKING).split())
"""They are left out of a query, unless it says nothing else."""

FAINT_WORDS = frozenset(_SAID_OF_BOTH.split())
"""They may be what a tool does, and more often are only how people talk."""
