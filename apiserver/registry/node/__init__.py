"""Strategies and cells of node.k8s.io stand here by module and name; `index` imports them."""

STRATEGIES = {
    "runtimeclasses": "runtimeclass:RuntimeClassStrategy",
}

CELLS = {
    "RuntimeClass": "runtimeclass:runtime_class_cells",
}
