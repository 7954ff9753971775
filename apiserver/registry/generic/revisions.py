"""Parses the resource versions of clients, and waits for one."""

from kubeskew.apimachinery import errors, field
from kubeskew.apimachinery.errors import StatusError
from kubeskew.apimachinery.go_formats import parse_uint
from kubeskew.apiserver.storage.interfaces import CompactedError, FutureRevisionError, Store
from kubeskew.apiserver.watch_cache_features import Source

EXPIRED_LIST = "The resourceVersion for the provided list is too old."  # etcd3/errors.go
WAIT_SECONDS = 3.0  # for a revision that is not there yet (cacher's blockTimeout)


def parse_revision(text: str) -> int:
    """Lists answer 400 to a wrong revision."""
    try:
        return _parse(text)
    except StatusError as error:
        raise errors.bad_request(f"invalid resource version: {error.message}") from None


def parse_cached_revision(text: str) -> int:
    """Watches and gets answer 500 to a wrong revision, as upstream's cache does."""
    return _parse(text)


def _parse(text: str) -> int:
    if not text:
        return 0
    try:
        return parse_uint(text)
    except ValueError as error:
        raise StatusError(500, "", str(field.invalid("resourceVersion", text, str(error)))) from None


async def wait(store: Store, revision: int) -> None:
    """Waits until `revision` is applied here; raises 504."""
    if revision <= store.revision:
        return
    try:
        await store.wait_for(revision, WAIT_SECONDS)
    except FutureRevisionError as error:
        raise errors.too_large_resource_version(revision, error.current) from None


async def reach(
    store: Store, revision: int, source: Source, *, exactly: bool, translated: bool = True
) -> None:
    """Waits until `revision` can be read; raises 504, or 500 with etcd's words unless `translated`.

    A cache waits for a revision to come, the store answers at once: in a read `exactly` at it
    (kubernetes/kubernetes#132374), or in one of what is there, which may be newer.
    Source: staging/src/k8s.io/apiserver/pkg/storage/etcd3/store.go (GetList, validateMinimumResourceVersion)
    and cacher/watch_cache.go (waitUntilFreshAndBlock), 1.36.
    """
    if source is Source.CACHE:
        await wait(store, revision)
        return
    newest = await store.refresh()
    if revision <= newest:
        return
    if exactly and not translated:
        raise StatusError(500, "", "etcdserver: mvcc: required revision is a future revision")
    raise errors.too_large_resource_version(revision, newest, retry_after_seconds=0)


def too_old(error: CompactedError) -> StatusError:
    """A watch at a revision that is gone gets this 410."""
    return StatusError(410, "Expired", f"too old resource version: {error.asked} ({error.horizon})")
