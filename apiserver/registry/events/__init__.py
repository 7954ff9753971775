"""Registers what is particular to the kinds of events.k8s.io: each by module and name."""

# by resource: what decides how objects are written
STRATEGIES = {
    "events": "kubeskew.apiserver.registry.core.event.strategy:EventStrategy",
}

# by kind: what makes the cells of table rows
CELLS = {
    "Event": "kubeskew.apiserver.registry.core.event.table:event",
}
