"""Registers what is particular to the kinds of events.k8s.io: each by module and name."""

STRATEGIES = {
    "events": "kubeskew.apiserver.registry.core.event.strategy:EventStrategy",
}

CELLS = {
    "Event": "kubeskew.apiserver.registry.core.event.table:event",
}
