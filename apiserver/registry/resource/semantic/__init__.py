"""Strategies, cells and defaults of semantic parameters (KEP-4381 as drafted) by module and name.

The preview 1.29+kep4381 is 1.29 for the rest: the strategies build on those of `classic`.
"""

STRATEGIES = {
    "kep4381.resourceclaimparameters": "parameters:ClaimParametersStrategy",
    "kep4381.resourceclaims": "parameters:ClaimStrategy",
    "kep4381.resourceclasses": "parameters:ResourceClassStrategy",
    "noderesourceslices": "parameters:NodeSliceStrategy",
}

CELLS = {"NodeResourceSlice": "parameters:node_resource_slice_cells"}

DEFAULTS = {"v1alpha2.NodeResourceSlice": "parameters:default_node_slice"}
