"""Service: strategies, rules, warnings, and the allocation of addresses and ports."""
