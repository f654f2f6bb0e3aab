"""Conversations with models: the tools of a request, the turn that answers a reply, and the complete loop."""

from agenttool.providers.loop import ModelRun, RunOptions, TurnLimitError, check_options, provider_of, run_model
from agenttool.providers.model_tools import ModelTools
from agenttool.providers.turn import IncompleteReplyError, ModelTurn, WaitingCall

__all__ = [
    "IncompleteReplyError",
    "ModelRun",
    "ModelTools",
    "ModelTurn",
    "RunOptions",
    "TurnLimitError",
    "WaitingCall",
    "check_options",
    "provider_of",
    "run_model",
]
