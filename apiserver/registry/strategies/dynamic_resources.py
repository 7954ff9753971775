"""resource.k8s.io. Source: pkg/registry/resource/*/strategy.go, 1.36."""

from apimachinery.errors import GroupResource
from apiserver.registry.strategy import Strategy

STRATEGIES: dict[GroupResource, type[Strategy]] = {}
