"""Distributes the cells of a run to workers, and collects the results."""
