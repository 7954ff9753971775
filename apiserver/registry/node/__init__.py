"""Registers what is particular to the kinds of node.k8s.io: each by module and name."""

# by resource: what decides how objects are written
STRATEGIES = {
    "runtimeclasses": "runtimeclass.strategy:RuntimeClassStrategy",
}

# by kind: what makes the cells of table rows
CELLS = {
    "RuntimeClass": "runtimeclass.table:runtime_class",
}
