"""Conversations with models: the tools of a request, the turn that answers a reply, and the complete loop."""

from agenttool.providers.model_tools import ModelTools
from agenttool.providers.turn import IncompleteReplyError, ModelTurn, PendingCall

__all__ = ["IncompleteReplyError", "ModelTools", "ModelTurn", "PendingCall"]
