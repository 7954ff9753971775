"""Holds what the controllers share: queues and workers, expectations, owner references, pods, revisions."""
