"""The kind that makes kinds."""

from kubeskew.apimachinery.errors import GroupResource
from kubeskew.apiserver.apiextensions.strategy import DefinitionStrategy
from kubeskew.apiserver.registry.strategy import Strategy

STRATEGIES: dict[GroupResource, type[Strategy]] = {
    GroupResource("apiextensions.k8s.io", "customresourcedefinitions"): DefinitionStrategy,
}
