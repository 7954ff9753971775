"""Makes profiles from settings: which plugins each scheduler name runs at which extension point, the defaults
as the configuration file changes them.

Source: k8s.io/kubernetes/pkg/scheduler/apis/config/v1/default_plugins.go, mergePlugins, and
framework/runtime/framework.go, expandMultiPointPlugins, 1.36.
"""

from collections.abc import Iterable, Mapping, Sequence

from kubeskew.scheduler.framework import interfaces
from kubeskew.scheduler.framework.interfaces import Plugin
from kubeskew.scheduler.framework.profile import Profile, ProfileError
from kubeskew.scheduler.plugins.registry import REGISTRY, PluginContext, default_plugins
from kubeskew.scheduler.settings import (
    EXTENSION_POINTS,
    MULTI_POINT,
    ConfigurationError,
    PluginRef,
    PluginSet,
    ProfileSettings,
)

_NONE = PluginSet()
_PROTOCOLS: Mapping[str, type] = {
    "preEnqueue": interfaces.PreEnqueue,
    "queueSort": interfaces.QueueSort,
    "preFilter": interfaces.PreFilter,
    "filter": interfaces.Filter,
    "postFilter": interfaces.PostFilter,
    "preScore": interfaces.PreScore,
    "score": interfaces.Score,
    "reserve": interfaces.Reserve,
    "permit": interfaces.Permit,
    "preBind": interfaces.PreBind,
    "bind": interfaces.Bind,
    "postBind": interfaces.PostBind,
}


def merged(defaults: Sequence[PluginRef], custom: PluginSet) -> list[PluginRef]:
    """Drops the disabled default plugins; a plugin that is enabled again replaces its default."""
    again = {plugin.name: plugin for plugin in custom.enabled}
    kept = [
        again.get(plugin.name, plugin)
        for plugin in defaults
        if plugin.name not in custom.disabled and "*" not in custom.disabled
    ]
    names = {plugin.name for plugin in kept}
    return [*kept, *(plugin for plugin in custom.enabled if plugin.name not in names)]


def multi_point(defaults: Sequence[PluginRef], plugins: Mapping[str, PluginSet]) -> list[PluginRef]:
    return merged(defaults, plugins.get(MULTI_POINT, _NONE))


def points_of(
    everywhere: Sequence[PluginRef], plugins: Mapping[str, PluginSet], able: Mapping[str, Iterable[str]]
) -> dict[str, list[PluginRef]]:
    """`able` names, for each extension point, the plugins that can act there.

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


def build(settings: ProfileSettings, context: PluginContext, percentage: int = 0) -> Profile:
    """Raises ProfileError.

    `percentage` of nodes to score applies if the profile has none itself.
    """
    everywhere = multi_point(default_plugins(context.features), settings.plugins)
    made: dict[str, Plugin] = {}
    for name in _wanted(everywhere, settings):
        make = REGISTRY.get(name)
        if make is None:
            raise ProfileError(f"{_failed(settings)}: {_missing(everywhere, settings, name)}")
        try:
            made[name] = make(context, settings.arguments.get(name, {}))
        except ConfigurationError as error:
            raise ProfileError(f'{_failed(settings)}: initializing plugin "{name}": {error}') from error
    able = {
        point: [name for name, plugin in made.items() if interfaces.acts(plugin, kind)]
        for point, kind in _PROTOCOLS.items()
    }
    points = points_of(everywhere, settings.plugins, able)
    weights = {plugin.name: plugin.weight or 1 for plugin in points["score"]}
    order = {point: [plugin.name for plugin in points[point]] for point in EXTENSION_POINTS}
    used = {name for names in order.values() for name in names}
    if settings.percentage_of_nodes_to_score is not None:
        percentage = settings.percentage_of_nodes_to_score
    plugins = [plugin for name, plugin in made.items() if name in used]
    return Profile(plugins, weights, settings.scheduler_name, order, percentage)


def _failed(settings: ProfileSettings) -> str:
    return f"initializing profiles: creating profile for scheduler name {settings.scheduler_name}"


def _wanted(everywhere: Sequence[PluginRef], settings: ProfileSettings) -> Sequence[str]:
    """Plugins that act anywhere, in the default order."""
    named = [plugin.name for point in EXTENSION_POINTS for plugin in _enabled(settings, point)]
    return [*dict.fromkeys([*(plugin.name for plugin in everywhere), *named])]


def _enabled(settings: ProfileSettings, point: str) -> Sequence[PluginRef]:
    found = settings.plugins.get(point)
    return found.enabled if found is not None else ()


def _missing(everywhere: Sequence[PluginRef], settings: ProfileSettings, name: str) -> str:
    """Error of an unknown plugin; it depends on where the plugin was enabled."""
    if name in {plugin.name for plugin in everywhere}:
        return f'MultiPointPlugin "{name}" does not exist'
    point = next(point for point in EXTENSION_POINTS if name in {e.name for e in _enabled(settings, point)})
    return f'{point[0].upper()}{point[1:]}Plugin "{name}" does not exist'


def check_queue_sort(profiles: Sequence[Profile]) -> None:
    """Raises ProfileError unless all profiles have the same queue sort: they share one queue."""
    first = profiles[0]
    for profile in profiles[1:]:
        if profile.queue_sort.name != first.queue_sort.name:
            raise ProfileError(
                f'different queue sort plugins for profile "{profile.name}": "{profile.queue_sort.name}", '
                f'first: "{first.queue_sort.name}"'
            )
