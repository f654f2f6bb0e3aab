"""The provider side of RAP, for authors of long-running tools. See `Provider`."""

from agenttool.adapters.python.context import Progress
from agenttool.adapters.rap.credentials import Bearer, Credential, Signed
from agenttool.adapters.rap.wire import Segment, display_diff, display_image, display_text
from agenttool.ports.limits import RateLimit
from agenttool.rap.call import RapCall
from agenttool.rap.limits import Limits
from agenttool.rap.oauth import Cipher, OAuthClient
from agenttool.rap.provider import Provider
from agenttool.rap.tool_api import Declined, Event, Image, Result, Subscribed

__all__ = [
    "Bearer",
    "Cipher",
    "Credential",
    "Declined",
    "Event",
    "Image",
    "Limits",
    "OAuthClient",
    "Progress",
    "Provider",
    "RapCall",
    "RateLimit",
    "Result",
    "Segment",
    "Signed",
    "Subscribed",
    "display_diff",
    "display_image",
    "display_text",
]
