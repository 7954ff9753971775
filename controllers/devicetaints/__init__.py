"""The device taint eviction controller: evicts pods whose devices have a taint that they do not tolerate."""
