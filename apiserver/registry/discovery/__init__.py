"""Strategies, cells and defaults of discovery.k8s.io stand here by module and name; `index` imports them."""

STRATEGIES = {
    "endpointslices": "endpointslice:EndpointSliceStrategy",
}

CELLS = {
    "EndpointSlice": "endpointslice:endpoint_slice_cells",
}

DEFAULTS = {
    "v1.EndpointSlice": "endpointslice:default_endpoint_slice",
}
