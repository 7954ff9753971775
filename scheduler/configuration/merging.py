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
    again = {plugin.name: plugin for plugin in custom.enabled}
    kept = [
        again.get(plugin.name, plugin)
        for plugin in defaults
        if plugin.name not in custom.disabled and "*" not in custom.disabled
    ]
    names = {plugin.name for plugin in kept}
    return [*kept, *(plugin for plugin in custom.enabled if plugin.name not in names)]


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
        names = {plugin.name for plugin in everywhere}
        override = [plugin for plugin in here.enabled if plugin.name in names]
        replaced = {plugin.name for plugin in override}
        general = [
            plugin
            for plugin in everywhere
            if plugin.name in can
            and plugin.name not in replaced
            and plugin.name not in here.disabled
            and "*" not in here.disabled
        ]
        result[point] = [
            *override,
            *general,
            *(plugin for plugin in here.enabled if plugin.name not in names),
        ]
    return result
