"""Registers what is particular to the kinds of apiregistration.k8s.io: each by module and name."""

STRATEGIES = {
    "apiservices": "apiservice:APIServiceStrategy",
}

CELLS = {
    "APIService": "apiservice:api_service_cells",
}

DEFAULTS = {
    "v1.APIService": "apiservice:default_api_service",
}
