"""Registers what is particular to the kinds of apiregistration.k8s.io: each by module and name."""

# by resource: what decides how objects are written
STRATEGIES = {
    "apiservices": "apiservice.strategy:APIServiceStrategy",
}

# by kind: what makes the cells of table rows
CELLS = {
    "APIService": "apiservice.table:api_service",
}

# by version and kind: what sets defaults
DEFAULTS = {
    "v1.APIService": "apiservice.defaults:api_service",
}
