"""ComponentStatus: made when it is asked for, never stored; with the cells of tables.

Leases decide whether the controller manager and the scheduler are well: where they listen is not known here.

Source: k8s.io/kubernetes/pkg/registry/core/componentstatus/rest.go and validator.go, 1.36.
"""

from datetime import timedelta

from kubeskew.apimachinery import errors
from kubeskew.apimachinery.clock import parse_timestamp
from kubeskew.apimachinery.errors import GroupResource, StatusError
from kubeskew.apimachinery.objects import Object
from kubeskew.apiserver.http import parameters
from kubeskew.apiserver.http.request import Request, Response
from kubeskew.apiserver.registry.generic.selection import selection
from kubeskew.apiserver.registry.requests import responses
from kubeskew.apiserver.registry.requests.scope import RequestServices, Scope
from kubeskew.apiserver.registry.tables.cells import Cells, Subject
from kubeskew.apiserver.storage.records import Key
from kubeskew.apiserver.unreadable import object_of

RESOURCE = "componentstatuses"
_ETCD = "etcd-0"
_LEASES = {  # component → lease in kube-system, the port at which upstream asks
    "controller-manager": ("kube-controller-manager", 10257),
    "scheduler": ("kube-scheduler", 10259),
}


async def get(request: Request, scope: Scope) -> Response:
    form = responses.form_of(request)
    name = request.info.name
    if name not in {*_LEASES, _ETCD}:
        if scope.services.features.kinds.unknown_component_is_404:
            raise errors.not_found(GroupResource("", "componentstatus"), name)
        raise StatusError(500, "", f"Component not found: {name}")
    await scope.services.store.refresh()
    return responses.render(request, scope, _component(scope, name), form)


async def list_objects(request: Request, scope: Scope) -> Response:
    form = responses.form_of(request)
    options = parameters.list_options(request, watch=False, watch_list=False)
    wanted = await selection(request, scope.registry, options)
    await scope.services.store.refresh()
    items = [
        _component(scope, name)
        for name in (*_LEASES, _ETCD)
        if wanted.labels.matches({}) and wanted.fields.matches({"metadata.name": name})
    ]
    return responses.document(responses.convert_list(request, scope, items, {}, form), form)


def _component(scope: Scope, name: str) -> Object:
    services = scope.services
    if name == _ETCD:
        problem = "" if services.log.healthy else "etcd failed: reason withheld"
    else:
        problem = _problem(services, *_LEASES[name])
    condition = {"type": "Healthy", "status": "False" if problem else "True", "message": problem or "ok"}
    head = {"kind": scope.resource.kind, "apiVersion": scope.resource.api_version}
    return {**head, "metadata": {"name": name}, "conditions": [condition]}


def _problem(services: RequestServices, name: str, port: int) -> str:
    """An empty text means that the holder of the lease renews it."""
    leases = services.table.resource("coordination.k8s.io", "v1", "leases")
    entry = services.store.get(Key(leases.storage_resource, "kube-system", name)) if leases else None
    spec = object_of(entry).get("spec") or {} if entry is not None else {}
    if spec.get("holderIdentity") and spec.get("renewTime"):
        lasts = timedelta(seconds=spec.get("leaseDurationSeconds") or 0)
        if parse_timestamp(spec["renewTime"]) + lasts >= services.environment.clock.now():
            return ""
    address = f"127.0.0.1:{port}"
    return f'Get "https://{address}/healthz": dial tcp {address}: connect: connection refused'


def component_status_cells(subject: Subject) -> Cells:
    healthy = next(
        (condition for condition in subject.items("conditions") if condition.get("type") == "Healthy"), None
    )
    if healthy is None:
        return {"Status": "Unknown", "Message": "", "Error": ""}
    return {
        "Status": "Healthy" if healthy.get("status") == "True" else "Unhealthy",
        "Message": healthy.get("message", ""),
        "Error": healthy.get("error", ""),
    }
