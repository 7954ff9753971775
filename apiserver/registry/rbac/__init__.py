"""Registers what is particular to the kinds of rbac.authorization.k8s.io: each by module and name."""

# by resource: what decides how objects are written
STRATEGIES = {
    "clusterrolebindings": "strategy:BindingStrategy",
    "clusterroles": "strategy:RoleStrategy",
    "rolebindings": "strategy:BindingStrategy",
    "roles": "strategy:RoleStrategy",
}

# by kind: what makes the cells of table rows
CELLS = {
    "ClusterRoleBinding": "table:role_binding",
    "RoleBinding": "table:role_binding",
}

# by version and kind: what sets defaults
DEFAULTS = {
    "v1.ClusterRoleBinding": "defaults:binding",
    "v1.RoleBinding": "defaults:binding",
}
