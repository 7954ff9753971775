"""Binds a pod to a node.

Source: k8s.io/kubernetes/pkg/registry/core/pod/storage/storage.go (BindingREST, assignPod), 1.36.
"""

from kubeskew.apimachinery import errors, field, names
from kubeskew.apimachinery.clock import timestamp
from kubeskew.apimachinery.errors import GroupResource, StatusError
from kubeskew.apimachinery.objects import Object
from kubeskew.apimachinery.resources import Resource
from kubeskew.apiserver.features import PodFeatures
from kubeskew.apiserver.http import parameters
from kubeskew.apiserver.http.request import Request, Response
from kubeskew.apiserver.registry.generic import update as generic_update
from kubeskew.apiserver.registry.generic.registry import WriteResult, commit, guaranteed_update
from kubeskew.apiserver.registry.requests.scope import Scope, admit_posted, read_other, write_of
from kubeskew.apiserver.storage.encoding import dumps
from kubeskew.apiserver.storage.records import Entry

_PODS_BINDING = GroupResource("", "pods/binding")
SUCCESS = {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "code": 201}


async def bind(request: Request, scope: Scope) -> Response:
    """POST of a Binding, to a pod or to `bindings`, answers a Status."""
    options = parameters.write_options(request, "CreateOptions")
    table = scope.services.table
    target = table.by_kind("", "v1", "Binding")
    if not isinstance(target, Resource):
        raise errors.unknown_path()
    binding = await read_other(request, scope, target, target.schema, options.field_validation)
    binding.setdefault("metadata", {})
    name = binding["metadata"].get("name") or ""
    _check(binding, request.info.name or name, scope.services.features.pods)
    pods = table.resource("", "v1", "pods")
    if pods is None:
        raise errors.unknown_path()
    pod_scope = Scope(scope.services, pods, scope.services.registry(pods), "binding")
    await admit_posted(request, pod_scope, binding, dry_run=options.dry_run)
    await _assign(request, pod_scope, name, binding, options.dry_run)
    return Response(201, dumps(SUCCESS) + b"\n")


def _check(binding: Object, name: str, features: PodFeatures) -> None:
    """A binding that does not bind the pod `name` to a node raises 400 or, as upstream, 500."""
    if name != (binding["metadata"].get("name") or ""):
        raise errors.bad_request("name in URL does not match name in Binding object")
    target = binding.get("target") or {}
    problems = []
    if target.get("kind") not in {None, "", "Node"}:
        problems.append(field.not_supported("target.kind", target["kind"], ("Node", "<empty>")))
    if not target.get("name"):
        problems.append(field.required("target.name"))
    elif features.checks_bound_node:
        node = target["name"]
        problems += [field.invalid("target.name", node, text) for text in names.dns1123_subdomain(node)]
    if problems:
        raise StatusError(500, "", field.listed(problems))


async def _assign(request: Request, scope: Scope, name: str, binding: Object, dry_run: bool) -> None:
    registry = scope.registry
    write = write_of(request, scope, dry_run=dry_run)
    wanted = binding["metadata"]

    async def attempt(entry: Entry | None) -> WriteResult:
        if entry is None:
            raise errors.not_found(registry.resource.group_resource, name)
        for what, asked, found in (
            ("UID", wanted.get("uid"), entry.uid),
            ("ResourceVersion", wanted.get("resourceVersion"), str(entry.revision)),
        ):
            if asked and asked != found:
                raise generic_update.precondition_failed(registry, entry.key, what, asked, found)
        pod = registry.object(entry)
        _set_host(scope, pod, binding, name)
        return await commit(registry, entry.key, pod, write, entry)

    await guaranteed_update(scope.services.store, registry.key(request.info.namespace, name), attempt)


def _set_host(scope: Scope, pod: Object, binding: Object, name: str) -> None:
    """Writes the node into the pod, or raises 409 with the reason."""
    metadata, spec = pod["metadata"], pod["spec"]
    wanted = binding["metadata"]
    if metadata.get("deletionTimestamp"):
        raise errors.conflict(
            _PODS_BINDING, name, f"pod {name} is being deleted, cannot be assigned to a host"
        )
    if spec.get("nodeName"):
        why = f'pod {name} is already assigned to node "{spec["nodeName"]}"'
        raise errors.conflict(_PODS_BINDING, name, why)
    if spec.get("schedulingGates"):
        raise errors.conflict(_PODS_BINDING, name, f"pod {name} has non-empty .spec.schedulingGates")
    spec["nodeName"] = binding["target"]["name"]
    for kind in ("annotations", "labels"):
        if wanted.get(kind):
            metadata[kind] = {**(metadata.get(kind) or {}), **wanted[kind]}
    if scope.services.features.pods.clears_nomination:
        (pod.get("status") or {}).pop("nominatedNodeName", None)
    _set_scheduled(scope, pod)


def _set_scheduled(scope: Scope, pod: Object) -> None:
    """PodScheduled becomes true; if it was true, its time stays."""
    conditions = pod.setdefault("status", {}).setdefault("conditions", [])
    now = timestamp(scope.services.environment.clock.now())
    condition = {"type": "PodScheduled", "status": "True", "lastProbeTime": None, "lastTransitionTime": now}
    for position, old in enumerate(conditions):
        if old["type"] == "PodScheduled":
            if old["status"] != "True":
                conditions[position] = condition
            return
    conditions.append(condition)
