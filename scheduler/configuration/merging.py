"""Decides which plugins a profile runs at which extension point: the defaults, as the file changes them.

Source: k8s.io/kubernetes/pkg/scheduler/apis/config/v1/default_plugins.go, mergePlugins, and
framework/runtime/framework.go, expandMultiPointPlugins, 1.36.
"""

from collections.abc import Iterable, Mapping, Sequence

from kubeskew.scheduler.configuration.settings import EXTENSION_POINTS, MULTI_POINT, PluginRef, PluginSet

_NONE = PluginSet()


def merged(defaults: Sequence[PluginRef], custom: PluginSet) -> list[PluginRef]:
    """Returns the default plugins without the disabled ones; one that is enabled again replaces its
    default."""
    again = {each.name: each for each in custom.enabled}
    kept = [
        again.get(each.name, each)
        for each in defaults
        if each.name not in custom.disabled and "*" not in custom.disabled
    ]
    names = {each.name for each in kept}
    return [*kept, *(each for each in custom.enabled if each.name not in names)]


def multi_point(defaults: Sequence[PluginRef], plugins: Mapping[str, PluginSet]) -> list[PluginRef]:
    """Returns the plugins that act wherever they can."""
    return merged(defaults, plugins.get(MULTI_POINT, _NONE))


def points(
    everywhere: Sequence[PluginRef], plugins: Mapping[str, PluginSet], able: Mapping[str, Iterable[str]]
) -> dict[str, list[PluginRef]]:
    """Returns the plugins of each extension point, in order; `able` says which can act at a point.

    What is enabled for one point replaces the same plugin of `multiPoint` and comes first.
    """
    result = {}
    for point in EXTENSION_POINTS:
        here = plugins.get(point, _NONE)
        can = frozenset(able[point])
        names = {each.name for each in everywhere}
        override = [each for each in here.enabled if each.name in names]
        replaced = {each.name for each in override}
        general = [
            each
            for each in everywhere
            if each.name in can
            and each.name not in replaced
            and each.name not in here.disabled
            and "*" not in here.disabled
        ]
        result[point] = [*override, *general, *(each for each in here.enabled if each.name not in names)]
    return result
