"""Nodes that go silent, the taints that follow their conditions, and the pods that have to leave them."""
