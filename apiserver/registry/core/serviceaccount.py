"""ServiceAccount: strategy, cells of tables, and the subresource `token`.

A token ends by itself, or with the object that it is bound to.

Sources: k8s.io/kubernetes/pkg/registry/core/serviceaccount/storage/token.go and
pkg/apis/authentication/validation/validation.go, pkg/registry/core/serviceaccount/strategy.go, 1.36.
"""

from datetime import datetime
from typing import Any

from kubeskew.apimachinery import errors, field
from kubeskew.apimachinery.clock import later, timestamp
from kubeskew.apimachinery.errors import GroupKind, GroupResource
from kubeskew.apimachinery.golang.roundtrip import normalise
from kubeskew.apimachinery.objects import Object
from kubeskew.apimachinery.schema import Schema
from kubeskew.apiserver.admission import CREATE
from kubeskew.apiserver.apply.managedfields import FieldManager
from kubeskew.apiserver.http import parameters
from kubeskew.apiserver.http.media_types import WITHOUT_TABLES
from kubeskew.apiserver.http.request import Request, Response
from kubeskew.apiserver.registry.generic.builtin import BuiltIn
from kubeskew.apiserver.registry.generic.field_managers import manager_name
from kubeskew.apiserver.registry.generic.strategy import UPDATE, Check, StrategyContext
from kubeskew.apiserver.registry.requests import responses
from kubeskew.apiserver.registry.requests.scope import Scope, attributes_of, read_other, wipe_system_metadata
from kubeskew.apiserver.registry.tables.cells import Cells, Subject
from kubeskew.apiserver.serviceaccount import tokens
from kubeskew.apiserver.serviceaccount.tokens import BoundObjects
from kubeskew.apiserver.storage.records import Key
from kubeskew.apiserver.unreadable import object_of

_KIND = GroupKind("authentication.k8s.io", "TokenRequest")
_DEFAULT_SECONDS = 3600
_LEAST_SECONDS = 600
_MOST_SECONDS = 1 << 32
_BINDABLE = {"Pod": "pods", "Node": "nodes", "Secret": "secrets"}
_ENFORCE = "kubernetes.io/enforce-mountable-secrets"

_ENFORCED = (
    f"metadata.annotations[{_ENFORCE}]: deprecated in v1.32+; prefer separate namespaces to isolate access "
    "to mounted secrets"
)


async def request_token(request: Request, scope: Scope) -> Response:
    """The TokenRequest comes back with 201, its status filled in. Nothing is stored."""
    form = responses.form_of(request, WITHOUT_TABLES)
    options = parameters.write_options(request, "CreateOptions")
    schema = scope.services.definition("io.k8s.api.authentication.v1.TokenRequest")
    if schema is None:
        raise errors.unknown_path()
    target = scope.resource.subresources["token"]
    asked = await read_other(request, scope, target, schema, options.field_validation)
    now, chain = scope.services.environment.clock.now(), scope.services.admission
    asked.setdefault("metadata", {})
    if not scope.services.features.accounts.token_uid:
        wipe_system_metadata(asked)
    spec = asked.setdefault("spec", {})
    if spec.get("expirationSeconds") is None:
        spec["expirationSeconds"] = _DEFAULT_SECONDS
    asked = _managed(request, asked, schema, options.field_manager, now)
    attributes = attributes_of(request, scope, CREATE, asked, dry_run=options.dry_run)
    await chain.admit(attributes)
    account = _account(scope, request)
    _complete(scope, request, asked, account["metadata"]["uid"], now)
    await chain.validate(attributes)
    issued = _issue(scope, asked, account, now)
    return responses.render(request, scope, normalise(issued, schema), form, 201)


def _managed(request: Request, asked: Object, schema: Schema, manager: str, now: datetime) -> Object:
    name = manager_name(manager, request.headers.get("user-agent", ""))
    return FieldManager(lambda _: schema, blank=True).update(None, asked, name, "token", timestamp(now))


def _account(scope: Scope, request: Request) -> Object:
    info = request.info
    entry = scope.registry.entry(info.namespace, info.name)
    return object_of(entry)


def _complete(scope: Scope, request: Request, asked: Object, uid: str, now: datetime) -> None:
    """Fields that the request leaves out are set; raises 409 and 422. `uid` is that of the account."""
    metadata, spec = asked["metadata"], asked["spec"]
    for name, value in (("name", request.info.name), ("namespace", request.info.namespace)):
        if metadata.get(name) and metadata[name] != value:
            why = f"must match the service account {name} if specified"
            problem = field.invalid(f"metadata.{name}", metadata[name], why)
            raise errors.invalid(_KIND, request.info.name, [problem])
        metadata[name] = value
    if scope.services.features.accounts.token_uid:
        _check_uid(scope, request, metadata.setdefault("uid", uid), uid)
    metadata["creationTimestamp"] = timestamp(now)
    if not spec.get("audiences"):
        spec["audiences"] = list(scope.services.account_keys.audiences)
    asked["status"] = {"token": "", "expirationTimestamp": None}
    path, seconds = "spec.expirationSeconds", spec["expirationSeconds"]
    if seconds < _LEAST_SECONDS:
        problem = field.invalid(path, seconds, "may not specify a duration less than 10 minutes")
        raise errors.invalid(_KIND, "", [problem])
    if seconds > _MOST_SECONDS:
        problem = field.invalid(path, seconds, "may not specify a duration larger than 2^32 seconds")
        raise errors.invalid(_KIND, "", [problem])


def _check_uid(scope: Scope, request: Request, given: str, uid: str) -> None:
    """The uid of another account raises 409, or is warned of."""
    if given == uid:
        return
    why = f"the UID in the token request ({given}) does not match the UID of the service account ({uid})"
    if scope.services.features.accounts.checks_token_uid:
        raise errors.conflict(GroupResource(*_KIND), request.info.name, why)
    gate = "TokenRequestServiceAccountUIDValidation"
    request.warnings.append(
        f"{why} but {gate} is not enabled. In the future, this will return a conflict error"
    )


def _issue(scope: Scope, asked: Object, account: Object, now: datetime) -> Object:
    services, spec = scope.services, asked["spec"]
    keys, seconds = services.account_keys, spec["expirationSeconds"]
    bound = _bound(scope, spec.get("boundObjectRef"), account)
    lasting, warn_after = seconds, 0
    own = set(spec["audiences"]) <= set(keys.audiences)
    if bound.pod is not None and seconds == tokens.WARN_SECONDS and own:
        lasting, warn_after = tokens.EXTENDED_SECONDS, seconds
    identifier = services.environment.entropy.uid() if services.features.accounts.token_ids else ""
    claims = tokens.claims(
        keys.issuer, account, bound, spec["audiences"], now, lasting,
        warn_after=warn_after, identifier=identifier,
    )  # fmt: skip
    status = {"token": keys.signing.sign(claims), "expirationTimestamp": timestamp(later(now, seconds))}
    about = {name: asked[name] for name in ("kind", "apiVersion", "metadata", "spec")}
    return {**about, "status": status}


def _bound(scope: Scope, reference: dict[str, Any] | None, account: Object) -> BoundObjects:
    """Tokens are bound to these objects; raises 400, 404, 409."""
    if reference is None:
        return BoundObjects()
    group, _, version = (reference.get("apiVersion") or "").rpartition("/")
    kind, name = reference.get("kind") or "", reference.get("name") or ""
    if group or kind not in _BINDABLE:
        raise errors.bad_request(f"cannot bind token to object of type {_gvk(group, version, kind)}")
    if kind == "Node" and not scope.services.features.accounts.node_binding:
        gate = "ServiceAccountTokenNodeBinding"
        raise errors.bad_request(
            f'cannot bind token to a Node object as the "{gate}" feature-gate is disabled'
        )
    namespace = "" if kind == "Node" else account["metadata"]["namespace"]
    found = _get(scope, _BINDABLE[kind], namespace, name)
    if found is None:
        raise errors.not_found(GroupResource("", _BINDABLE[kind]), name)
    owner = account["metadata"]["name"]
    if kind == "Pod" and found["spec"].get("serviceAccountName") != owner:
        why = "to pod running with different serviceaccount name."
        raise errors.bad_request(f'cannot bind token for serviceaccount "{owner}" {why}')
    if reference.get("uid") and reference["uid"] != found["metadata"]["uid"]:
        why = f"the UID in the bound object reference ({reference['uid']}) does not match the UID in record"
        why += ". The object might have been deleted and then recreated"
        raise errors.conflict(GroupResource("", kind), name, why)
    if kind == "Pod":
        return BoundObjects(pod=found, node=_node_of(scope, found))
    return BoundObjects(node=found) if kind == "Node" else BoundObjects(secret=found)


def _node_of(scope: Scope, pod: Object) -> Object | None:
    """A node without an object has only its name; None if the pod has no node or the release names none."""
    name = pod["spec"].get("nodeName")
    if not name or not scope.services.features.accounts.pod_node_info:
        return None
    return _get(scope, "nodes", "", name) or {"metadata": {"name": name}}


def _get(scope: Scope, resource: str, namespace: str, name: str) -> Object | None:
    entry = scope.services.store.get(Key(resource, namespace, name))
    return object_of(entry) if entry else None


def _gvk(group: str, version: str, kind: str) -> str:
    return f"{group}/{version}, Kind={kind}"


class ServiceAccountStrategy(BuiltIn):
    """Only the names of the secrets that it may mount are kept."""

    update_checks = (Check.METADATA, *UPDATE)
    returns_deleted_object = True

    def prepare_for_create(self, obj: Object, ctx: StrategyContext) -> None:
        super().prepare_for_create(obj, ctx)
        self._keep_names(obj)

    def prepare_for_update(self, new: Object, old: Object, ctx: StrategyContext) -> None:
        super().prepare_for_update(new, old, ctx)
        self._keep_names(new)

    def _keep_names(self, obj: Object) -> None:
        if obj.get("secrets"):
            obj["secrets"] = [
                {"name": secret["name"]} if secret.get("name") else {} for secret in obj["secrets"]
            ]

    def warnings(self, obj: Object, ctx: StrategyContext) -> list[str]:
        warns = ctx.features.accounts.enforcing_deprecated
        return [_ENFORCED] if warns and _ENFORCE in (obj["metadata"].get("annotations") or {}) else []

    def update_warnings(self, new: Object, old: Object, ctx: StrategyContext) -> list[str]:
        had = _ENFORCE in (old["metadata"].get("annotations") or {})
        return [] if had else self.warnings(new, ctx)


def service_account_cells(subject: Subject) -> Cells:
    return {"Secrets": subject.count("secrets")}
