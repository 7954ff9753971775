"""Registers what is particular to the kinds of apiregistration.k8s.io: each by module and name."""

STRATEGIES = {
    "apiservices": "apiservice.strategy:APIServiceStrategy",
}

CELLS = {
    "APIService": "apiservice.table:api_service",
}

DEFAULTS = {
    "v1.APIService": "apiservice.defaults:api_service",
}
