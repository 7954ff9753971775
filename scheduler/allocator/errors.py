"""Why a search ended without an answer."""


class AllocationError(Exception):
    """Fatal: trying other nodes makes no sense."""


class SearchTimeout(AllocationError):  # noqa: N818 - like TimeoutError
    """The search took longer than allowed."""


class NodeAllocationError(AllocationError):
    """Only this node cannot be judged."""
