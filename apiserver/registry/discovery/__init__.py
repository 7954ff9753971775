"""Registers what is particular to the kinds of discovery.k8s.io: each by module and name."""

STRATEGIES = {
    "endpointslices": "endpointslice.strategy:EndpointSliceStrategy",
}

CELLS = {
    "EndpointSlice": "endpointslice.table:endpoint_slice",
}

DEFAULTS = {
    "v1.EndpointSlice": "endpointslice.defaults:endpoint_slice",
}
