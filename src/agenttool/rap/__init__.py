"""RAP for authors of slow tools: acknowledge, work, report, survive. See `Provider`."""

from agenttool.adapters.python.context import Progress
from agenttool.adapters.rap.credentials import Bearer, Credential
from agenttool.adapters.rap.signed import Signed
from agenttool.adapters.rap.wire import Segment, shown_diff, shown_image, shown_text
from agenttool.ports.limits import RateLimit
from agenttool.rap.call import Call
from agenttool.rap.limits import Limits
from agenttool.rap.oauth import Cipher, OAuthClient
from agenttool.rap.outcome import Declined, Event, Image, Result, Subscribed
from agenttool.rap.provider import Provider

__all__ = [
    "Bearer",
    "Call",
    "Cipher",
    "Credential",
    "Declined",
    "Event",
    "Image",
    "Limits",
    "OAuthClient",
    "Progress",
    "Provider",
    "RateLimit",
    "Result",
    "Segment",
    "Signed",
    "Subscribed",
    "shown_diff",
    "shown_image",
    "shown_text",
]
