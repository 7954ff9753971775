"""The fake node agent: pod lifecycle, DRA manager, drivers."""
