"""Registers what is particular to the kinds of events.k8s.io: each by module and name."""

STRATEGIES = {
    "events": "kubeskew.apiserver.registry.core.event:EventStrategy",
}

CELLS = {
    "Event": "kubeskew.apiserver.registry.core.event:event_cells",
}
