"""Nodes that stop reporting, the taints for their conditions, and the pods that have to leave them."""
