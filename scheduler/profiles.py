"""Makes profiles from settings: the plugins of every scheduler name."""

from collections.abc import Mapping, Sequence

from kubeskew.scheduler.configuration import merging
from kubeskew.scheduler.configuration.durations import ConfigurationError
from kubeskew.scheduler.configuration.settings import EXTENSION_POINTS, PluginRef, ProfileSettings
from kubeskew.scheduler.framework import interfaces
from kubeskew.scheduler.framework.interfaces import Plugin
from kubeskew.scheduler.framework.profile import Profile, ProfileError
from kubeskew.scheduler.plugins.registry import REGISTRY, PluginContext, default_plugins

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


def build(settings: ProfileSettings, context: PluginContext, percentage: int = 0) -> Profile:
    """Returns the profile of `settings`; raises ProfileError.

    `percentage` of nodes to score applies if the profile has none itself.
    """
    everywhere = merging.multi_point(default_plugins(context.features), settings.plugins)
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
    points = merging.points(everywhere, settings.plugins, able)
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
    """Returns the plugins that act anywhere, in the default order."""
    named = [plugin.name for point in EXTENSION_POINTS for plugin in _enabled(settings, point)]
    return [*dict.fromkeys([*(plugin.name for plugin in everywhere), *named])]


def _enabled(settings: ProfileSettings, point: str) -> Sequence[PluginRef]:
    found = settings.plugins.get(point)
    return found.enabled if found is not None else ()


def _missing(everywhere: Sequence[PluginRef], settings: ProfileSettings, name: str) -> str:
    """Returns the error for an unknown plugin; it depends on where the plugin was enabled."""
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
