"""Registers what is particular to the kinds of node.k8s.io: each by module and name."""

STRATEGIES = {
    "runtimeclasses": "runtimeclass.strategy:RuntimeClassStrategy",
}

CELLS = {
    "RuntimeClass": "runtimeclass.table:runtime_class",
}
