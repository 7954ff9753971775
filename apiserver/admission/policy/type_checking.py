"""Writes warnings into a ValidatingAdmissionPolicy's status: expressions that do not fit the matched kinds.

Source: k8s.io/apiserver/pkg/admission/plugin/policy/validating/typechecking.go and the controller
validatingadmissionpolicy-status, 1.36. Upstream's controller manager writes it; here the server does.
"""

import asyncio
import logging
from collections.abc import Iterator
from typing import Any

from kubeskew.apimachinery.errors import StatusError
from kubeskew.apimachinery.objects import Object
from kubeskew.apimachinery.resources import GroupVersionKind, Resource
from kubeskew.apimachinery.schema import Kind, Schema
from kubeskew.apiserver.admission.dynamic.expressions import Expression
from kubeskew.apiserver.admission.policy.policies import Compiler, declare_all
from kubeskew.apiserver.admission.services import AdmissionServices
from kubeskew.apiserver.background import Wakeups
from kubeskew.apiserver.http.request import Handler, Request, parse_info
from kubeskew.apiserver.storage.encoding import dumps
from kubeskew.apiserver.storage.interfaces import StorageError
from kubeskew.apiserver.user import SERVER

log = logging.getLogger(__name__)

_RESOURCE = "validatingadmissionpolicies.admissionregistration.k8s.io"
_MAX_KINDS = 10
_MAX_DEPTH = 20
_SCALARS = {Kind.STRING: "string", Kind.BOOLEAN: "boolean", Kind.INTEGER: "integer", Kind.NUMBER: "number"}
_ANYTHING = {"x-kubernetes-int-or-string": True}


class TypeChecking:
    """Checks the types in policies, in the background of one server."""

    def __init__(self, services: AdmissionServices, dispatch: Handler) -> None:
        self._services = services
        self._dispatch = dispatch
        self._wakeups = Wakeups()
        services.store.follow(_RESOURCE, self._wakeups.wake)

    async def run(self) -> None:
        """Never returns; each change of a spec has its policy checked again."""
        while True:
            self._wakeups.begin()
            for entry in self._services.store.list(_RESOURCE).entries:
                try:
                    await self._look_at(self._services.codec.current(entry.value, entry.revision))
                except (StatusError, StorageError) as error:
                    log.info("status of policy %s not written: %s", entry.key.name, error)
                    self._wakeups.fail()
            await self._wakeups.wait()

    async def _look_at(self, policy: Object) -> None:
        status, generation = policy.get("status") or {}, policy["metadata"].get("generation") or 0
        if status.get("observedGeneration") == generation:
            return
        found = await asyncio.to_thread(lambda: list(warnings(self._services, policy)))
        checked: Object = {"expressionWarnings": found} if found else {}
        new = {**policy, "status": {**status, "observedGeneration": generation, "typeChecking": checked}}
        path = f"/apis/{policy['apiVersion']}/validatingadmissionpolicies/{policy['metadata']['name']}/status"
        request = Request.of("PUT", path, {"user-agent": "kube-apiserver"}, dumps(new))
        request.info = parse_info("PUT", path, {})
        request.user = SERVER
        await self._dispatch(request)


def warnings(services: AdmissionServices, policy: Object) -> Iterator[Object]:
    spec = policy.get("spec") or {}
    checkers = [(kind, _compiler(services, spec, schema)) for kind, schema in _kinds(services, spec)]
    for position, validation in enumerate(spec.get("validations") or ()):
        for name in ("expression", "messageExpression"):
            source = validation.get(name)
            if not source:
                continue
            texts = [_warning_text(kind, compiler.expression(source)) for kind, compiler in checkers]
            text = "\n".join(filter(None, texts))
            if text:
                yield {"fieldRef": f"spec.validations[{position}].{name}", "warning": text}


def _warning_text(kind: GroupVersionKind, expression: Expression) -> str:
    if expression.compiled() is not None:
        return ""
    issues = expression.compile_error.removeprefix("compilation error: ").removeprefix("compilation failed: ")
    return f"{kind.api_version if kind.group else '/' + kind.version}, Kind={kind.kind}: {issues}\n"


def _compiler(services: AdmissionServices, spec: Object, schema: Schema) -> Compiler:
    from kubeskew.apimachinery import cel

    declared = cel.declare(_json_schema(schema, 0), root=True)
    variables = {"object": declared, "oldObject": declared} if declared is not None else {}
    release, params = services.features.expressions, spec.get("paramKind") is not None
    compiler = Compiler(release, params=params, declared=variables)
    declare_all(compiler, spec.get("variables") or [])
    return compiler


def _kinds(services: AdmissionServices, spec: Object) -> list[tuple[GroupVersionKind, Schema]]:
    """Rules with a wildcard are left out; ten kinds at most come back."""
    found: dict[GroupVersionKind, Schema] = {}
    for rule in (spec.get("matchConstraints") or {}).get("resourceRules") or ():
        for resource in _named(services, rule):
            found[resource.gvk] = resource.schema
    return sorted(found.items(), key=lambda item: item[0])[:_MAX_KINDS]


def _named(services: AdmissionServices, rule: Object) -> Iterator[Resource]:
    groups, versions, plurals = rule.get("apiGroups"), rule.get("apiVersions"), rule.get("resources")
    if any("*" in name for listed in (groups, versions, plurals) for name in listed or ()):
        return
    for group in groups or ():
        for version in versions or ():
            for plural in plurals or ():
                resource = services.table.resource(group, version, plural)
                if resource is not None:
                    yield resource


def _json_schema(schema: Schema, depth: int) -> dict[str, Any]:
    """The form is that of a CustomResourceDefinition, at most `_MAX_DEPTH` levels deep."""
    if depth > _MAX_DEPTH or schema.kind in {Kind.ANY, Kind.INT_OR_STRING, Kind.QUANTITY}:
        return dict(_ANYTHING)
    if schema.kind is Kind.OBJECT:
        fields = schema.fields.items()
        properties = {name: _json_schema(field.schema, depth + 1) for name, field in fields}
        return {"type": "object", "properties": properties} if properties else dict(_ANYTHING)
    if schema.kind is Kind.MAP:
        items = _json_schema(schema.items, depth + 1) if schema.items else dict(_ANYTHING)
        return {"type": "object", "additionalProperties": items}
    if schema.kind is Kind.LIST:
        items = _json_schema(schema.items, depth + 1) if schema.items else dict(_ANYTHING)
        return {"type": "array", "items": items}
    made: dict[str, Any] = {"type": _SCALARS[schema.kind]}
    if schema.format in {"date-time", "byte"}:
        made["format"] = schema.format
    return made
