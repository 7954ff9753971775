"""Strategies and cells of events.k8s.io stand here by module and name; `index` imports them."""

STRATEGIES = {
    "events": "kubeskew.apiserver.registry.core.event:EventStrategy",
}

CELLS = {
    "Event": "kubeskew.apiserver.registry.core.event:event_cells",
}
