"""Why a search ended without an answer."""


class AllocationError(Exception):
    """Fatal: trying other nodes makes no sense."""


class NodeAllocationError(AllocationError):
    """Only this node cannot be judged."""
