"""Registers what is particular to the kinds of rbac.authorization.k8s.io: each by module and name."""

STRATEGIES = {
    "clusterrolebindings": "strategy:BindingStrategy",
    "clusterroles": "strategy:RoleStrategy",
    "rolebindings": "strategy:BindingStrategy",
    "roles": "strategy:RoleStrategy",
}

CELLS = {
    "ClusterRoleBinding": "table:role_binding",
    "RoleBinding": "table:role_binding",
}

DEFAULTS = {
    "v1.ClusterRoleBinding": "defaults:binding",
    "v1.RoleBinding": "defaults:binding",
}
