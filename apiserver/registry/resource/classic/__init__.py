"""Holds what is particular to classic DRA: ResourceClass and PodSchedulingContext (1.26 to 1.31)."""
