"""The records of the standard: pure data, one file per record or close family."""

from collections.abc import Mapping
from typing import get_args

from agenttool.records.content import PAYLOAD_SCHEME as PAYLOAD_SCHEME
from agenttool.records.content import ContentClass as ContentClass
from agenttool.records.content import ContentItem as ContentItem
from agenttool.records.content import RedactionState as RedactionState
from agenttool.records.content import Ref as Ref
from agenttool.records.content import TelemetryRef as TelemetryRef
from agenttool.records.content import text_item as text_item
from agenttool.records.declaration import ArgumentMode as ArgumentMode
from agenttool.records.declaration import InputContract as InputContract
from agenttool.records.declaration import Lifecycle as Lifecycle
from agenttool.records.declaration import MutationPolicy as MutationPolicy
from agenttool.records.declaration import OutputContract as OutputContract
from agenttool.records.declaration import ToolDeclaration as ToolDeclaration
from agenttool.records.declaration import ToolKind as ToolKind
from agenttool.records.declaration import ToolNamespace as ToolNamespace
from agenttool.records.error import ErrorClass as ErrorClass
from agenttool.records.error import NextAction as NextAction
from agenttool.records.error import Recoverability as Recoverability
from agenttool.records.error import RetryGuidance as RetryGuidance
from agenttool.records.error import ToolError as ToolError
from agenttool.records.event import TERMINAL_EVENTS as TERMINAL_EVENTS
from agenttool.records.event import EventType as EventType
from agenttool.records.event import HookEvent as HookEvent
from agenttool.records.event import HookOutput as HookOutput
from agenttool.records.event import HookOutputKind as HookOutputKind
from agenttool.records.event import ToolEvent as ToolEvent
from agenttool.records.event import ToolHook as ToolHook
from agenttool.records.ids import EVENT as EVENT
from agenttool.records.ids import ID_PREFIXES as ID_PREFIXES
from agenttool.records.ids import INVOCATION as INVOCATION
from agenttool.records.ids import PERSISTENCE as PERSISTENCE
from agenttool.records.ids import SURFACE as SURFACE
from agenttool.records.ids import ApprovalId as ApprovalId
from agenttool.records.ids import DecisionId as DecisionId
from agenttool.records.ids import ExecutionProfileId as ExecutionProfileId
from agenttool.records.ids import HookId as HookId
from agenttool.records.ids import IdKind as IdKind
from agenttool.records.ids import InterfaceId as InterfaceId
from agenttool.records.ids import InvocationId as InvocationId
from agenttool.records.ids import MutationId as MutationId
from agenttool.records.ids import PermissionProfileId as PermissionProfileId
from agenttool.records.ids import PersistenceId as PersistenceId
from agenttool.records.ids import ProgressId as ProgressId
from agenttool.records.ids import ResultId as ResultId
from agenttool.records.ids import SchedulerPolicyId as SchedulerPolicyId
from agenttool.records.ids import SurfaceId as SurfaceId
from agenttool.records.ids import ToolId as ToolId
from agenttool.records.ids import is_unresolved as is_unresolved
from agenttool.records.ids import unresolved_tool as unresolved_tool
from agenttool.records.interface import CALL_FACTS as CALL_FACTS
from agenttool.records.interface import CAPABILITY_FLAGS as CAPABILITY_FLAGS
from agenttool.records.interface import INTERFACE_DEFAULTS as INTERFACE_DEFAULTS
from agenttool.records.interface import UNREADABLE_FACT as UNREADABLE_FACT
from agenttool.records.interface import Rendering as Rendering
from agenttool.records.interface import ToolInterface as ToolInterface
from agenttool.records.interface import acted_on as acted_on
from agenttool.records.interface import complete_interface as complete_interface
from agenttool.records.interface import complete_policy as complete_policy
from agenttool.records.interface import complete_profile as complete_profile
from agenttool.records.interface import declares as declares
from agenttool.records.interface import follow_fact as follow_fact
from agenttool.records.invocation import InputMutation as InputMutation
from agenttool.records.invocation import InputStage as InputStage
from agenttool.records.invocation import MutationSource as MutationSource
from agenttool.records.invocation import StatusTransition as StatusTransition
from agenttool.records.invocation import ToolInvocation as ToolInvocation
from agenttool.records.invocation import input_ref as input_ref
from agenttool.records.mapping import A2aMapping as A2aMapping
from agenttool.records.mapping import BrowserMapping as BrowserMapping
from agenttool.records.mapping import CliMapping as CliMapping
from agenttool.records.mapping import ExternalMapping as ExternalMapping
from agenttool.records.mapping import FunctionMapping as FunctionMapping
from agenttool.records.mapping import McpMapping as McpMapping
from agenttool.records.mapping import NativeMapping as NativeMapping
from agenttool.records.mapping import OpenApiMapping as OpenApiMapping
from agenttool.records.mapping import RapMapping as RapMapping
from agenttool.records.mapping import TelemetryMapping as TelemetryMapping
from agenttool.records.outcome import CRASH_CLASSES as CRASH_CLASSES
from agenttool.records.outcome import OUTCOMES as OUTCOMES
from agenttool.records.outcome import Outcome as Outcome
from agenttool.records.outcome import Phase as Phase
from agenttool.records.permission import Behavior as Behavior
from agenttool.records.permission import ClassifierAuthority as ClassifierAuthority
from agenttool.records.permission import ClassifierCheck as ClassifierCheck
from agenttool.records.permission import PermissionDecision as PermissionDecision
from agenttool.records.permission import Reason as Reason
from agenttool.records.permission import ReasonType as ReasonType
from agenttool.records.permission import RuleSource as RuleSource
from agenttool.records.permission import SuggestedUpdate as SuggestedUpdate
from agenttool.records.profiles import AccessKind as AccessKind
from agenttool.records.profiles import ExecutionKind as ExecutionKind
from agenttool.records.profiles import ExecutionProfile as ExecutionProfile
from agenttool.records.profiles import NonInteractivePrompt as NonInteractivePrompt
from agenttool.records.profiles import PermissionProfile as PermissionProfile
from agenttool.records.profiles import RiskLevel as RiskLevel
from agenttool.records.profiles import WriteEffect as WriteEffect
from agenttool.records.progress import Cancellation as Cancellation
from agenttool.records.progress import CancellationOutcome as CancellationOutcome
from agenttool.records.progress import ProgressStatus as ProgressStatus
from agenttool.records.progress import ToolProgress as ToolProgress
from agenttool.records.record import SCHEMA_VERSION as SCHEMA_VERSION
from agenttool.records.record import UNSET as UNSET
from agenttool.records.record import ClosedEnum as ClosedEnum
from agenttool.records.record import Digest as Digest
from agenttool.records.record import Json as Json
from agenttool.records.record import JsonObject as JsonObject
from agenttool.records.record import Live as Live
from agenttool.records.record import OpenEnum as OpenEnum
from agenttool.records.record import Part as Part
from agenttool.records.record import Record as Record
from agenttool.records.record import Timestamp as Timestamp
from agenttool.records.record import UnsetType as UnsetType
from agenttool.records.record import replace as replace
from agenttool.records.result import PersistenceStrategy as PersistenceStrategy
from agenttool.records.result import ResultPersistence as ResultPersistence
from agenttool.records.result import ResultStatus as ResultStatus
from agenttool.records.result import ToolResult as ToolResult
from agenttool.records.result import plain_result as plain_result
from agenttool.records.scheduling import ContextModifierPolicy as ContextModifierPolicy
from agenttool.records.scheduling import InterruptBehavior as InterruptBehavior
from agenttool.records.scheduling import OrderingPolicy as OrderingPolicy
from agenttool.records.scheduling import ParallelClasses as ParallelClasses
from agenttool.records.scheduling import ResourceLock as ResourceLock
from agenttool.records.scheduling import SchedulerPolicy as SchedulerPolicy
from agenttool.records.scheduling import SchedulerState as SchedulerState
from agenttool.records.scheduling import SchedulingFacts as SchedulingFacts
from agenttool.records.scheduling import SiblingFailurePolicy as SiblingFailurePolicy
from agenttool.records.scheduling import YieldPolicy as YieldPolicy
from agenttool.records.status import TERMINAL_STATUSES as TERMINAL_STATUSES
from agenttool.records.status import AbortReason as AbortReason
from agenttool.records.status import InvocationStatus as InvocationStatus
from agenttool.records.status import may_follow as may_follow
from agenttool.records.surface import AbsenceReason as AbsenceReason
from agenttool.records.surface import AbsentTool as AbsentTool
from agenttool.records.surface import DeferredToolRef as DeferredToolRef
from agenttool.records.surface import LoadingState as LoadingState
from agenttool.records.surface import QueryType as QueryType
from agenttool.records.surface import SchemaVisibility as SchemaVisibility
from agenttool.records.surface import SearchMatch as SearchMatch
from agenttool.records.surface import SurfaceScope as SurfaceScope
from agenttool.records.surface import ToolSearchResult as ToolSearchResult
from agenttool.records.surface import ToolSurface as ToolSurface

RECORD_TYPES: dict[str, type[Record]] = {
    "tool_namespace": ToolNamespace,
    "tool_declaration": ToolDeclaration,
    "tool_interface": ToolInterface,
    "tool_execution_profile": ExecutionProfile,
    "tool_permission_profile": PermissionProfile,
    "tool_surface": ToolSurface,
    "deferred_tool_ref": DeferredToolRef,
    "tool_search_result": ToolSearchResult,
    "tool_invocation": ToolInvocation,
    "tool_input_mutation": InputMutation,
    "tool_hook": ToolHook,
    "tool_permission_decision": PermissionDecision,
    "tool_scheduler_policy": SchedulerPolicy,
    "tool_progress": ToolProgress,
    "tool_result": ToolResult,
    "tool_result_persistence": ResultPersistence,
    "tool_event": ToolEvent,
}
"""Documents that stand on their own, by the `record_type` they carry."""

CORE_OBJECTS: Mapping[str, tuple[type[Part], ...]] = {
    **{name: (kind,) for name, kind in RECORD_TYPES.items()},
    "tool_input_contract": (InputContract,),
    "tool_output_contract": (OutputContract,),
    "tool_error": (ToolError,),
    "tool_external_mapping": get_args(ExternalMapping),
}
"""Every object of the standard, those that live inside others included (AT-MODEL-02)."""
