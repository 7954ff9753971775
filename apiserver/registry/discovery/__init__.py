"""Registers what is particular to the kinds of discovery.k8s.io: each by module and name."""

# by resource: what decides how objects are written
STRATEGIES = {
    "endpointslices": "endpointslice.strategy:EndpointSliceStrategy",
}

# by kind: what makes the cells of table rows
CELLS = {
    "EndpointSlice": "endpointslice.table:endpoint_slice",
}

# by version and kind: what sets defaults
DEFAULTS = {
    "v1.EndpointSlice": "endpointslice.defaults:endpoint_slice",
}
