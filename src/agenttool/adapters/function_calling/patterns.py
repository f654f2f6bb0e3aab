"""Which patterns every provider reads: those without a look around, a look back, or a word of one dialect alone."""

import re

from agenttool.records import Json

_SIMPLE = re.compile(
    r"""(?:
        [^\\\[(]                                  # a sign, an anchor, a quantifier
      | \((?!\?) | \(\?:                          # a group, that captures or does not
      | \\[dDwWsStnrfv]                           # a class or a sign that has a letter
      | \\x[0-9A-Fa-f]{2} | \\u[0-9A-Fa-f]{4}
      | \\[^0-9A-Za-z]                            # a sign that would mean something else
      | \[\^?(?: [^\\\[\]] | \\[dDwWsStnrfv] | \\x[0-9A-Fa-f]{2} | \\u[0-9A-Fa-f]{4} | \\[^0-9A-Za-z] )+\]
    )*""",
    re.VERBOSE | re.DOTALL,
)


def is_simple(pattern: Json) -> bool:
    """Tell whether a pattern is one that every provider reads; of any other, one of them refuses the whole request."""
    return isinstance(pattern, str) and _SIMPLE.fullmatch(pattern) is not None
