"""Converts objects of resource.k8s.io to the shape of v1, for which the rules are written."""

import copy

from kubeskew.apimachinery.conversion.converting import CONVERTERS
from kubeskew.apimachinery.objects import Object
from kubeskew.apimachinery.resources import GroupVersionKind
from kubeskew.apiserver.registry.generic.strategy import StrategyContext

_GROUP = "resource.k8s.io"

_CLASSIC = frozenset({"v1alpha1", "v1alpha2"})  # other objects under the same names


def as_v1(obj: Object, ctx: StrategyContext) -> Object:
    """Returns the object in the shape of v1: a copy, unless the hub has that shape."""
    hub = GroupVersionKind(_GROUP, ctx.resource.version, ctx.resource.kind)
    if hub not in CONVERTERS:
        return obj
    widened = copy.deepcopy(obj)
    CONVERTERS[hub][0](widened)
    return widened


def is_classic(ctx: StrategyContext) -> bool:
    return ctx.resource.version in _CLASSIC
