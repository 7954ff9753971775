"""The errors that end a search without an answer."""


class AllocationError(Exception):
    """An error for which other nodes need not be tried."""


class SearchTimeout(AllocationError):  # noqa: N818 - like TimeoutError
    """The search took longer than allowed."""

    def __init__(self) -> None:
        super().__init__("filter operation aborted: context deadline exceeded")


class NodeAllocationError(AllocationError):
    """Only this node cannot be judged."""


class TooManyResults(AllocationError):  # noqa: N818 - steers the search, rarely seen outside
    """A claim would get more devices than its status can hold."""

    def __init__(self) -> None:
        super().__init__("allocation max size exceeded")


class Unsolvable(Exception):  # noqa: N818 - ends a search, is never seen outside
    """There is no solution, as an easier problem proves."""
