"""Finds the strategy of a resource: that of its kind, the general one, or that of custom resources."""

from functools import cache
from importlib import import_module

from kubeskew.apimachinery.errors import GroupResource
from kubeskew.apimachinery.resources import Resource
from kubeskew.apiserver.registry.generic.strategy import Strategy
from kubeskew.apiserver.registry.index import registered

_CUSTOM = "kubeskew.apiserver.registry.apiextensions.customresource.strategy"  # imported when first needed


@cache
def strategy_of(kind: GroupResource) -> type[Strategy]:
    """Returns the strategy of a kind; the general one if nothing is particular to it."""
    strategy: type[Strategy] = registered(kind.group, "STRATEGIES", kind.resource) or Strategy
    return strategy


def strategies_of(resource: Resource) -> tuple[Strategy, Strategy]:
    """Returns the strategies of a resource and of its status, made for it alone."""
    if resource.custom:
        module = import_module(_CUSTOM)
        return module.InstanceStrategy(resource), module.InstanceStatusStrategy(resource)
    strategy = strategy_of(resource.group_resource)()
    return strategy, strategy.status()
