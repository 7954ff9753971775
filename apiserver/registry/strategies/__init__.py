"""What is particular to the built-in kinds; `STRATEGIES` is the one place where they are registered."""

from apimachinery.errors import GroupResource
from apiserver.definitions.strategy import DefinitionStrategy
from apiserver.registry.strategies.access import STRATEGIES as _ACCESS
from apiserver.registry.strategies.aggregation import STRATEGIES as _AGGREGATION
from apiserver.registry.strategies.apps import STRATEGIES as _APPS
from apiserver.registry.strategies.batch import STRATEGIES as _BATCH
from apiserver.registry.strategies.classes import STRATEGIES as _CLASSES
from apiserver.registry.strategies.coordination import STRATEGIES as _COORDINATION
from apiserver.registry.strategies.core import STRATEGIES as _CORE
from apiserver.registry.strategies.discovery import STRATEGIES as _DISCOVERY
from apiserver.registry.strategies.dynamic_resources import STRATEGIES as _DYNAMIC_RESOURCES
from apiserver.registry.strategies.events import STRATEGIES as _EVENTS
from apiserver.registry.strategies.flow_control import STRATEGIES as _FLOW_CONTROL
from apiserver.registry.strategies.limiting import STRATEGIES as _LIMITING
from apiserver.registry.strategies.networking import STRATEGIES as _NETWORKING
from apiserver.registry.strategies.others import STRATEGIES as _OTHERS
from apiserver.registry.strategies.pods import STRATEGIES as _PODS
from apiserver.registry.strategies.policy import STRATEGIES as _POLICY
from apiserver.registry.strategies.registration import STRATEGIES as _REGISTRATION
from apiserver.registry.strategies.services import STRATEGIES as _SERVICES
from apiserver.registry.strategies.storage import STRATEGIES as _STORAGE
from apiserver.registry.strategies.trust import STRATEGIES as _TRUST
from apiserver.registry.strategy import Strategy

STRATEGIES: dict[GroupResource, type[Strategy]] = {
    **_CORE,
    **_EVENTS,
    **_LIMITING,
    **_CLASSES,
    **_PODS,
    **_SERVICES,
    **_APPS,
    **_BATCH,
    **_COORDINATION,
    **_DYNAMIC_RESOURCES,
    **_REGISTRATION,
    **_AGGREGATION,
    **_FLOW_CONTROL,
    **_NETWORKING,
    **_POLICY,
    **_DISCOVERY,
    **_TRUST,
    **_STORAGE,
    **_OTHERS,
    **_ACCESS,
    GroupResource("apiextensions.k8s.io", "customresourcedefinitions"): DefinitionStrategy,
}
