"""Admits requests by webhooks: AdmissionReviews are made, sent, and their answers read.

Those that may change an object are called one after the other, and some of them twice; those that may refuse
it are called all at once.

Sources, all 1.36: k8s.io/apiserver/pkg/admission/plugin/webhook (request/admissionreview.go,
errors/statuserror.go, accessors.go, generic, mutating/{dispatcher,reinvocationcontext}.go,
validating/dispatcher.go).
"""

import asyncio
import base64
import binascii
import copy
import logging
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any

from kubeskew.apimachinery import errors
from kubeskew.apimachinery.errors import StatusError
from kubeskew.apimachinery.golang import decode_errors
from kubeskew.apimachinery.objects import Object
from kubeskew.apiserver.admission import CONNECT, CREATE, DELETE, UPDATE, Attributes, Plugin
from kubeskew.apiserver.admission.dynamic.conditions import Conditions
from kubeskew.apiserver.admission.dynamic.matching import (
    EXEMPT,
    REVIEWS,
    Criteria,
    Invocation,
    ReinvokeContext,
    Versioned,
    described,
    options_of,
)
from kubeskew.apiserver.admission.services import AdmissionServices
from kubeskew.apiserver.apply.patching.json_patch import apply_json_patch
from kubeskew.apiserver.apply.patching.values import PatchError
from kubeskew.apiserver.caching.store_cache import DerivedFromStore
from kubeskew.apiserver.decoding import decoder
from kubeskew.apiserver.webhooks.client import CallError, ConfigError

GROUP = "admission.k8s.io"
_VERSIONS = ("v1", "v1beta1")
log = logging.getLogger(__name__)

_GROUP = "admissionregistration.k8s.io"
_DEFAULT_SECONDS = 10


class ReviewError(Exception):
    """A review cannot be made, or its answer is not one."""


class WrongTypeError(Exception):
    """Go could not decode the answer; the text is Go's."""


@dataclass(frozen=True, slots=True)
class AdmissionResponse:
    """`patch` is the JSON patch as bytes, empty if there is none."""

    allowed: bool
    status: Object | None = None
    patch: bytes = b""
    patch_type: str = ""
    warnings: list[str] = field(default_factory=list)
    annotations: dict[str, str] = field(default_factory=dict)


def version_of(accepted: list[str]) -> str:
    """The webhook's order decides among the versions that this server writes; raises ReviewError."""
    found = next((version for version in accepted if version in _VERSIONS), None)
    if found is None:
        raise ReviewError("webhook does not accept known AdmissionReview versions (v1, v1beta1)")
    return found


def review(
    version: str,
    uid: str,
    attributes: Attributes,
    invocation: Invocation,
    objects: tuple[Object | None, Object | None],
) -> Object:
    """`objects` are the new and the old one in the invocation's version."""
    request = {"uid": uid, **described(attributes, invocation)}
    request |= {"object": objects[0], "oldObject": objects[1]}
    request |= {"dryRun": attributes.dry_run, "options": options_of(attributes)}
    return {"kind": "AdmissionReview", "apiVersion": f"{GROUP}/{version}", "request": request}


# --- answers -----------------------------------------------------------------------------------------------


def admission_response(answer: Object, version: str, uid: str, *, mutating: bool) -> AdmissionResponse:
    """Raises WrongTypeError, and ReviewError where upstream does not accept the answer."""
    response = answer.get("response")
    if response is None:
        raise ReviewError("webhook response was absent")
    _check_types(response)
    patch, patch_type = _decoded(response.get("patch")), response.get("patchType")
    if version == "v1":
        _check(answer, response, uid)
        patch_problem(patch, patch_type, mutating=mutating)
    elif not mutating:
        patch = b""
    return AdmissionResponse(
        bool(response.get("allowed")),
        response.get("status"),
        patch,
        (patch_type if version == "v1" else "JSONPatch") or "",
        [text or "" for text in response.get("warnings") or ()],
        {key: value or "" for key, value in (response.get("auditAnnotations") or {}).items()},
    )


_STATUS_TYPES = {"message": (str, "string"), "reason": (str, "v1.StatusReason"), "code": (int, "int32")}
_RESPONSE_TYPES = {
    "uid": (str, "types.UID"), "allowed": (bool, "bool"), "status": (dict, "v1.Status"),
    "patch": (str, "[]uint8"), "patchType": (str, "v1.PatchType"),
    "auditAnnotations": (dict, "map[string]string"), "warnings": (list, "[]string"),
}  # fmt: skip


def _check_types(response: Any) -> None:
    """Raises WrongTypeError for fields of wrong types; types are those of api/admission/v1/types.go, 1.36."""
    _check_type(response, dict, "AdmissionReview.response", "v1.AdmissionResponse")
    for name, (kind, shown) in _RESPONSE_TYPES.items():
        _check_type(response.get(name), kind, f"AdmissionResponse.response.{name}", shown)
    for name, (kind, shown) in _STATUS_TYPES.items():
        _check_type((response.get("status") or {}).get(name), kind, f"Status.response.status.{name}", shown)
    _check_type(
        (response.get("status") or {}).get("details"),
        dict,
        "Status.response.status.details",
        "v1.StatusDetails",
    )
    texts = {
        "warnings": response.get("warnings") or (),
        "auditAnnotations": (response.get("auditAnnotations") or {}).values(),
    }
    for name, values in texts.items():
        for value in values:
            _check_type(value, str, f"AdmissionResponse.response.{name}", "string")


def _check_type(value: Any, kind: type, field_name: str, shown: str) -> None:
    if value is None or (isinstance(value, kind) and (kind is not int or not isinstance(value, bool))):
        return
    found = decode_errors.found(value)
    raise WrongTypeError(f"json: cannot unmarshal {found} into Go struct field {field_name} of type {shown}")


def _check(answer: Object, response: Object, uid: str) -> None:
    got = response.get("uid") or ""
    if got != uid:
        raise ReviewError(f'expected response.uid="{uid}", got "{got}"')
    kind, api_version = answer.get("kind") or "", answer.get("apiVersion") or ""
    if (kind, api_version) != ("AdmissionReview", f"{GROUP}/v1"):
        shown = api_version if "/" in api_version else f"/{api_version}"
        raise ReviewError(
            f"expected webhook response of {GROUP}/v1, Kind=AdmissionReview, got {shown}, Kind={kind}"
        )


def patch_problem(patch: bytes, patch_type: Any, *, mutating: bool) -> None:
    """Raises ReviewError if patch and patchType do not fit together, or must not be there."""
    if not mutating:
        if patch:
            raise ReviewError("validating webhook may not return response.patch")
        if patch_type is not None:
            raise ReviewError("validating webhook may not return response.patchType")
        return
    if patch and patch_type is None:
        raise ReviewError("webhook returned response.patch but not response.patchType")
    if not patch and patch_type is not None:
        raise ReviewError("webhook returned response.patchType but not response.patch")
    if patch_type == "":
        raise ReviewError('webhook returned invalid response.patchType of ""')


def _decoded(patch: Any) -> bytes:
    try:
        return base64.b64decode(patch or "", validate=True)
    except (binascii.Error, ValueError, TypeError):
        raise ReviewError("illegal base64 data at input byte 0") from None


def denial(webhook: str, status: Object | None) -> StatusError:
    """The client receives the webhook's own status, with the webhook's name before the message."""
    result = dict(status or {})
    denied = f'admission webhook "{webhook}" denied the request'
    why = result.get("message") or result.get("reason")
    code = int(result.get("code") or 0)
    message = f"{denied}: {why}" if why else f"{denied} without explanation"
    return StatusError(
        code if code >= 400 else 400, result.get("reason") or "", message, result.get("details")
    )


def dry_run_unsupported(webhook: str) -> StatusError:
    return errors.bad_request(f'admission webhook "{webhook}" does not support dry run')


def patch_operations(patch: bytes) -> list[Any]:
    """Raises 500, as upstream, if the patch is not a list."""
    try:
        value = decoder.parse(patch, "application/json").value
    except ValueError as error:
        raise errors.internal(str(error)) from None
    if value is None:
        return []
    if not isinstance(value, list):
        name = {dict: "object", str: "string", bool: "bool"}.get(type(value), "number")
        raise errors.internal(f"json: cannot unmarshal {name} into Go value of type jsonpatch.Patch")
    return value


class CallingError(Exception):
    """A webhook cannot be called, or its answer is invalid: failurePolicy decides."""


@dataclass(slots=True)
class Hook:
    """`uid` is unique among the webhooks of its kind; `name` is the one in messages."""

    uid: str
    name: str
    spec: Object
    criteria: Criteria
    conditions: Conditions

    @property
    def ignores_failures(self) -> bool:
        return bool(self.spec.get("failurePolicy") == "Ignore")


class Hooks:
    """Calls the webhooks of one kind of configuration, in the order of the configurations' names."""

    def __init__(self, services: AdmissionServices, plural: str, *, mutating: bool) -> None:
        self._services = services
        self._mutating = mutating
        virtual = services.features.admission.exempts_reviews
        self._exempt = EXEMPT | REVIEWS if virtual else EXEMPT
        self._hooks = DerivedFromStore(
            services.store, [f"{plural}.{_GROUP}"], self._make, services.codec.current
        )

    def _make(self, configurations: list[Object]) -> tuple[Hook, ...]:
        made: list[Hook] = []
        for configuration in sorted(configurations, key=lambda one: one["metadata"]["name"]):
            seen: dict[str, int] = {}
            for spec in configuration.get("webhooks") or ():
                name = spec.get("name") or ""
                number = seen[name] = seen.get(name, -1) + 1
                uid = f"{configuration['metadata']['name']}/{name}/{number}"
                made.append(self._hook(uid, spec))
        return tuple(made)

    def _hook(self, uid: str, spec: Object) -> Hook:
        conditions = Conditions(
            self._services,
            spec.get("matchConditions") or (),
            fails=spec.get("failurePolicy") != "Ignore",
        )
        return Hook(uid, spec.get("name") or "", spec, Criteria(spec.get("rules") or (), spec), conditions)

    def concerned(self, attributes: Attributes) -> tuple[Hook, ...]:
        """Webhooks stand in the order in which they are asked; exempt resources have none."""
        hooks = self._hooks.get()
        return () if hooks and attributes.resource.storage_resource in self._exempt else hooks

    async def invocation(self, hook: Hook, attributes: Attributes, versioned: Versioned) -> Invocation | None:
        """None if the webhook does not match, else the form in which it is shown the request."""
        found = hook.criteria.match(attributes, self._services.table, self._services.store)
        if found is None or not await hook.conditions.hold(attributes, found, versioned):
            return None
        return found

    async def call(self, hook: Hook, invocation: Invocation, versioned: Versioned) -> AdmissionResponse:
        """Warnings and annotations of the answer are added to the request's.

        Raises CallingError, and 400 for an impossible dry run.
        """
        attributes, spec = versioned.attributes, hook.spec
        if attributes.dry_run and spec.get("sideEffects") not in {"None", "NoneOnDryRun"}:
            raise dry_run_unsupported(hook.name)
        uid = self._services.environment.entropy.uid()
        try:
            version = version_of(spec.get("admissionReviewVersions") or [])
        except ReviewError as error:
            raise _failed(hook, f"could not create admission objects: {error}") from None
        objects = await versioned.object(invocation), await versioned.old(invocation)
        asked = review(version, uid, attributes, invocation, objects)
        answer = await self._post(hook, asked)
        try:
            response = admission_response(answer, version, uid, mutating=self._mutating)
        except ReviewError as error:
            raise _failed(hook, f"received invalid webhook response: {error}") from None
        except WrongTypeError as error:
            raise _failed(hook, f"failed to call webhook: {error}") from None
        attributes.warnings.extend(response.warnings)
        for key, value in response.annotations.items():
            attributes.annotations[f"{hook.name}/{key}"] = value
        return response

    async def _post(self, hook: Hook, asked: Object) -> Object:
        seconds = float(hook.spec.get("timeoutSeconds") or _DEFAULT_SECONDS)
        try:
            return await self._services.webhooks.post(hook.spec.get("clientConfig") or {}, asked, seconds)
        except ConfigError as error:
            raise _failed(hook, f"could not get REST client: {error}") from None
        except CallError as error:
            raise _failed(hook, f"failed to call webhook: {error}") from None


def _failed(hook: Hook, why: str) -> CallingError:
    return CallingError(f'failed calling webhook "{hook.name}": {why}')


async def guarded(hook: Hook, ask: Callable[[], Awaitable[None]]) -> None:
    """Runs `ask`; the webhook's failurePolicy turns a failed call into an error (500) or ignores it."""
    try:
        await ask()
    except CallingError as error:
        if hook.ignores_failures:
            log.warning("Failed calling webhook, failing open %s: %s", hook.name, error)
            return
        log.warning("Failed calling webhook, failing closed %s: %s", hook.name, error)
        raise errors.internal(str(error)) from None
    except StatusError:
        raise


_MUTATING = "MutatingAdmissionWebhook"


class MutatingAdmissionWebhook(Plugin):
    waits = True
    operations = frozenset({CREATE, UPDATE, DELETE, CONNECT})
    subresources = None

    def __init__(self, services: AdmissionServices) -> None:
        self._services = services
        self._hooks = Hooks(services, "mutatingwebhookconfigurations", mutating=True)

    async def admit(self, attributes: Attributes) -> None:
        hooks = self._hooks.concerned(attributes)
        if not hooks:
            return
        notes: ReinvokeContext = attributes.reinvocation.notes.setdefault(_MUTATING, ReinvokeContext())
        again = attributes.reinvocation.again
        if again and notes.last != attributes.object:
            notes.require()
        versioned = Versioned(self._services, attributes)
        try:
            for hook in hooks:
                await self._ask(hook, versioned, notes, again=again)
        finally:
            notes.last = copy.deepcopy(attributes.object)

    async def _ask(self, hook: Hook, versioned: Versioned, notes: ReinvokeContext, *, again: bool) -> None:
        attributes = versioned.attributes
        invocation = await self._hooks.invocation(hook, attributes, versioned)
        if invocation is None or (again and hook.uid not in notes.due):
            return
        changed = False

        async def ask() -> None:
            nonlocal changed
            changed = await self._apply(
                hook, invocation, versioned, await self._hooks.call(hook, invocation, versioned)
            )

        try:
            await guarded(hook, ask)
        finally:
            if changed:
                notes.require()
                attributes.reinvocation.wanted = True
            if hook.spec.get("reinvocationPolicy") == "IfNeeded":
                notes.eligible.add(hook.uid)

    async def _apply(
        self, hook: Hook, invocation: Invocation, versioned: Versioned, response: AdmissionResponse
    ) -> bool:
        """True if the object changed; raises the refusal, and 500."""
        if not response.allowed:
            raise denial(hook.name, response.status)
        if not response.patch:
            return False
        operations = patch_operations(response.patch)
        if not operations:
            return False
        current = await versioned.object(invocation)
        if current is None:
            raise errors.internal(
                f'admission webhook "{hook.name}" attempted to modify the object, which is not supported '
                "for this operation"
            )
        if response.patch_type != "JSONPatch":
            why = f'unsupported patch type "{response.patch_type}"'
            raise CallingError(f'failed calling webhook "{hook.name}": {why}')
        try:
            whole = self._services.features.requests.whole_patches
            patched = apply_json_patch(current, operations, whole=whole)
        except PatchError as error:
            raise errors.internal(error.why) from None
        return await versioned.replace(invocation, patched)


class ValidatingAdmissionWebhook(Plugin):
    """Asks the webhooks of every ValidatingWebhookConfiguration; the first refusal is the client's answer."""

    waits = True
    operations = frozenset({CREATE, UPDATE, DELETE, CONNECT})
    subresources = None

    def __init__(self, services: AdmissionServices) -> None:
        self._services = services
        self._hooks = Hooks(services, "validatingwebhookconfigurations", mutating=False)

    async def validate(self, attributes: Attributes) -> None:
        hooks = self._hooks.concerned(attributes)
        if not hooks:
            return
        versioned = Versioned(self._services, attributes)
        relevant: list[tuple[Hook, Invocation]] = []
        for hook in hooks:
            invocation = await self._hooks.invocation(hook, attributes, versioned)
            if invocation is not None:
                await versioned.object(invocation)  # converted once, before all ask for it
                await versioned.old(invocation)
                relevant.append((hook, invocation))
        if relevant:
            await self._ask_all(relevant, versioned)

    async def _ask_all(self, relevant: list[tuple[Hook, Invocation]], versioned: Versioned) -> None:
        """Calls all webhooks at once and waits for them; raises the refusal that came first."""
        refusals: list[StatusError] = []

        async def ask(hook: Hook, invocation: Invocation) -> None:
            try:
                await guarded(hook, lambda: self._ask(hook, invocation, versioned))
            except StatusError as error:
                refusals.append(error)

        async with asyncio.TaskGroup() as group:
            for hook, invocation in relevant:
                group.create_task(ask(hook, invocation))
        if refusals:
            for error in refusals[1:]:
                log.warning("another webhook refused too: %s", error.message)
            raise refusals[0]

    async def _ask(self, hook: Hook, invocation: Invocation, versioned: Versioned) -> None:
        response = await self._hooks.call(hook, invocation, versioned)
        if not response.allowed:
            raise denial(hook.name, response.status)
