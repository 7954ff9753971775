"""The kind that makes kinds."""

from apimachinery.errors import GroupResource
from apiserver.definitions.strategy import DefinitionStrategy
from apiserver.registry.strategy import Strategy

STRATEGIES: dict[GroupResource, type[Strategy]] = {
    GroupResource("apiextensions.k8s.io", "customresourcedefinitions"): DefinitionStrategy,
}
