"""Errors for revisions whose state the log does not have."""

from kubeskew.apiserver.storage.factory import Reader
from kubeskew.apiserver.storage.interfaces import CompactedError, FutureRevisionError
from kubeskew.apiserver.storage.records import EMPTY_REVISION
from kubeskew.cluster.failures import UserError


async def check_kept(reader: Reader, revision: int) -> None:
    """Raises UserError if the log does not have the state at `revision`."""
    newest, horizon = await reader.revision(), max(await reader.horizon(), EMPTY_REVISION)
    if revision > newest:
        raise unkept(FutureRevisionError(revision, newest))
    if revision < horizon:
        raise unkept(CompactedError(revision, horizon))


def unkept(error: CompactedError | FutureRevisionError) -> UserError:
    """The storage's error about a revision becomes a UserError."""
    if isinstance(error, FutureRevisionError):
        return UserError(f"revision {error.asked} has not been written yet: the newest is {error.current}")
    if error.horizon == EMPTY_REVISION:
        return UserError(f"revision {error.asked} is before the first, {EMPTY_REVISION}")
    return UserError(f"revision {error.asked} is compacted: the log begins after revision {error.horizon}")
