"""The provider side of RAP, for authors of long-running tools. See `Provider`."""

from agenttool.adapters.python.context import Progress as Progress
from agenttool.adapters.rap.credentials import Bearer as Bearer
from agenttool.adapters.rap.credentials import Credential as Credential
from agenttool.adapters.rap.credentials import Signed as Signed
from agenttool.adapters.rap.wire import Segment as Segment
from agenttool.adapters.rap.wire import display_diff as display_diff
from agenttool.adapters.rap.wire import display_image as display_image
from agenttool.adapters.rap.wire import display_text as display_text
from agenttool.ports.limits import RateLimit as RateLimit
from agenttool.rap.call import RapCall as RapCall
from agenttool.rap.limits import Limits as Limits
from agenttool.rap.oauth import Cipher as Cipher
from agenttool.rap.oauth import OAuthClient as OAuthClient
from agenttool.rap.provider import Provider as Provider
from agenttool.rap.tool_api import Declined as Declined
from agenttool.rap.tool_api import DescribedImage as DescribedImage
from agenttool.rap.tool_api import Event as Event
from agenttool.rap.tool_api import Result as Result
from agenttool.rap.tool_api import Subscribed as Subscribed
