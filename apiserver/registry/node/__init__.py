"""Registers what is particular to the kinds of node.k8s.io: each by module and name."""

STRATEGIES = {
    "runtimeclasses": "runtimeclass:RuntimeClassStrategy",
}

CELLS = {
    "RuntimeClass": "runtimeclass:runtime_class_cells",
}
