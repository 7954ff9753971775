"""The NodeResourcesFit and NodeResourcesBalancedAllocation plugins, and their scoring strategies."""
