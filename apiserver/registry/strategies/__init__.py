"""Which kind has a strategy of its own: the one place where they are registered."""

from apimachinery.errors import GroupResource
from apiserver.registry.strategy import Strategy

STRATEGIES: dict[GroupResource, type[Strategy]] = {}
