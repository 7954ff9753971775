"""The device taint eviction controller: pods go whose devices have a taint that they do not tolerate."""
