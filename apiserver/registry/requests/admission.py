"""Runs admission for requests that write no object: bindings, evictions, scales, tokens, connections.

Source: k8s.io/apiserver/pkg/endpoints/handlers/{create,rest}.go (ConnectResource), 1.36.
"""

from kubeskew.apimachinery.objects import Object
from kubeskew.apiserver.admission import CONNECT, CREATE, Attributes
from kubeskew.apiserver.http import parameters
from kubeskew.apiserver.http.request import Request
from kubeskew.apiserver.registry.requests.scope import Scope


def attributes_of(
    request: Request,
    scope: Scope,
    operation: str,
    body: Object | None,
    old: Object | None = None,
    *,
    dry_run: bool = False,
) -> Attributes:
    """`body` is what was posted to the subresource of the scope."""
    registry, info = scope.registry, request.info
    named = (body or {}).get("metadata") or {}
    return Attributes(
        operation,
        registry.resource,
        scope.subresource,
        info.namespace,
        info.name or named.get("name") or "",
        body,
        old,
        request.user,
        dry_run,
        scope.resource,
        {} if operation == CONNECT else parameters.given_options(request),
        request.warnings,
    )


async def admit_posted(request: Request, scope: Scope, body: Object, *, dry_run: bool = False) -> None:
    """`body` may be changed. Raises StatusError."""
    attributes = attributes_of(request, scope, CREATE, body, dry_run=dry_run)
    await scope.services.admission.admit(attributes)
    await scope.services.admission.validate(attributes)


async def admit_connection(request: Request, scope: Scope, options: Object) -> None:
    """Exec, attach, port-forward and proxy connect; raises StatusError.

    `options` is the PodExecOptions, PodAttachOptions, PodPortForwardOptions or *ProxyOptions of the request,
    with apiVersion and kind.
    """
    attributes = attributes_of(request, scope, CONNECT, options)
    await scope.services.admission.admit(attributes)
    await scope.services.admission.validate(attributes)
