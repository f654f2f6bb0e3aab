"""Test support: a fake context for tool functions, scripted models for agent loops, fakes for adapters and stores."""

from agenttool.testing.context import FakeContext as FakeContext
from agenttool.testing.model_server import ModelServer as ModelServer
from agenttool.testing.model_server import serve_model as serve_model
from agenttool.testing.replies import ModelCall as ModelCall
from agenttool.testing.replies import reply as reply
from agenttool.testing.replies import stream as stream
