"""Strategies, cells and defaults of apiregistration.k8s.io stand here by module and name; `index` imports
them."""

STRATEGIES = {
    "apiservices": "apiservice:APIServiceStrategy",
}

CELLS = {
    "APIService": "apiservice:api_service_cells",
}

DEFAULTS = {
    "v1.APIService": "apiservice:default_api_service",
}
