"""Evict a pod: a delete that a disruption budget may forbid (budgets come with their controller).

Source: k8s.io/kubernetes/pkg/registry/core/pod/storage/eviction.go, 1.36.
"""

from apimachinery.errors import bad_request
from apimachinery.schema import Field, Kind, Schema
from apiserver import bodies, parameters
from apiserver.encoding import dumps
from apiserver.handlers.binding import SUCCESS
from apiserver.handlers.creating import write_of
from apiserver.handlers.deleting import options_schema
from apiserver.registry import deleting
from apiserver.request import Request, Response
from apiserver.services import Scope


def _schema(metadata: Schema, options: Schema) -> Schema:
    text = Schema(Kind.STRING)
    fields = {"apiVersion": Field(text), "kind": Field(text), "metadata": Field(metadata)}
    fields["deleteOptions"] = Field(options, pointer=True)
    return Schema(Kind.OBJECT, name="io.k8s.api.policy.v1.Eviction", fields=fields)


async def evict(request: Request, scope: Scope) -> Response:
    """POST of an Eviction; answers a Status."""
    options = parameters.write_options(request, "CreateOptions")
    schema = _schema(scope.resource.schema.fields["metadata"].schema, options_schema(scope))
    target = scope.resource.subresources["eviction"]
    eviction = await bodies.read_other(request, scope, target, schema, options.field_validation)
    name = (eviction.get("metadata") or {}).get("name") or request.info.name
    if name != request.info.name:
        raise bad_request(
            f"name in URL does not match name in Eviction object: {request.info.name} != {name}"
        )
    how = parameters.delete_options(request, eviction.get("deleteOptions") or {})
    dry_run = options.dry_run or bool(how.get("dryRun"))
    write = write_of(request, scope, dry_run=dry_run)
    write.subresource = ""
    await deleting.delete(scope.registry, name, how, write)
    return Response(201, dumps(SUCCESS) + b"\n")
