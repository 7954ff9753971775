"""GET of one object. On the fast path nothing is parsed: bytes out of memory, the revision spliced in.

Source: k8s.io/apiserver/pkg/endpoints/handlers/get.go, 1.36.
"""

from kubeskew.apimachinery import errors
from kubeskew.apiserver.caching.offload import offload
from kubeskew.apiserver.http import parameters
from kubeskew.apiserver.http.request import Request, Response
from kubeskew.apiserver.registry.generic.revisions import parse_cached_revision, parse_revision, reach
from kubeskew.apiserver.registry.requests import responses
from kubeskew.apiserver.registry.requests.scope import Scope
from kubeskew.apiserver.unreadable import UnreadableError
from kubeskew.apiserver.watch_cache_features import Source


async def get(request: Request, scope: Scope) -> Response:
    """Answers the object as it is now, which satisfies `resourceVersion=0` and all older ones."""
    info, store = request.info, scope.services.store
    form = responses.form_of(request)
    if parameters.boolean(request, "export"):
        why = "the export parameter, deprecated since v1.14, is no longer supported"
        raise errors.bad_request(why)
    if asked := request.param("resourceVersion"):
        await _reach(scope, asked)
    else:
        await store.refresh()
    entry = store.get(scope.registry.requested_key(info.namespace, info.name))
    if entry is None:
        raise errors.not_found(scope.resource.group_resource, info.name)
    await scope.registry.fetch_conversion(entry)
    value, revision = entry.value, entry.revision
    try:
        if form == responses.PLAIN:
            return responses.current(request, scope, value, revision, form)
        return await offload(len(value), lambda: responses.current(request, scope, value, revision, form))
    except UnreadableError as error:
        raise scope.registry.unreadable(entry, error) from None


async def _reach(scope: Scope, asked: str) -> None:
    """Waits until the revision that a get names can be read; raises 400, or 500 as caches do, 503 and 504."""
    cached = scope.registry.cached
    revision = parse_cached_revision(asked) if cached.exists else parse_revision(asked)
    if cached.serves_get(revision):
        await cached.check()
    source = Source.CACHE if cached.exists else Source.STORE
    await reach(scope.services.store, revision, source, exactly=False)
