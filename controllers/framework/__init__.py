"""Shared by the controllers: queues and workers, expectations, owner references, pods, revisions."""
