"""Strategies, cells and defaults of rbac.authorization.k8s.io stand here by module and name; `index` imports
them."""

STRATEGIES = {
    "clusterrolebindings": "roles:BindingStrategy",
    "clusterroles": "roles:RoleStrategy",
    "rolebindings": "roles:BindingStrategy",
    "roles": "roles:RoleStrategy",
}

CELLS = {
    "ClusterRoleBinding": "roles:role_binding_cells",
    "RoleBinding": "roles:role_binding_cells",
}

DEFAULTS = {
    "v1.ClusterRoleBinding": "roles:default_binding",
    "v1.RoleBinding": "roles:default_binding",
}
