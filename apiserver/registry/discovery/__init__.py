"""Registers what is particular to the kinds of discovery.k8s.io: each by module and name."""

STRATEGIES = {
    "endpointslices": "endpointslice:EndpointSliceStrategy",
}

CELLS = {
    "EndpointSlice": "endpointslice:endpoint_slice_cells",
}

DEFAULTS = {
    "v1.EndpointSlice": "endpointslice:default_endpoint_slice",
}
