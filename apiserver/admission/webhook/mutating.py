"""Calls the webhooks that may change an object, one after the other, and some of them twice.

Source: k8s.io/apiserver/pkg/admission/plugin/webhook/mutating/{dispatcher,reinvocationcontext}.go, 1.36.
"""

import copy

from kubeskew.apimachinery import errors
from kubeskew.apiserver.admission import CONNECT, CREATE, DELETE, UPDATE, Attributes, Plugin
from kubeskew.apiserver.admission.dynamic.matching import Invocation, ReinvokeContext, Versioned
from kubeskew.apiserver.admission.services import AdmissionServices
from kubeskew.apiserver.admission.webhook import dispatcher
from kubeskew.apiserver.admission.webhook.dispatcher import (
    AdmissionResponse,
    CallingError,
    Hook,
    Hooks,
    guarded,
)
from kubeskew.apiserver.apply.patching.json_patch import apply_json_patch
from kubeskew.apiserver.apply.patching.values import PatchError

_NAME = "MutatingAdmissionWebhook"


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
        notes: ReinvokeContext = attributes.reinvocation.notes.setdefault(_NAME, ReinvokeContext())
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
            raise dispatcher.denial(hook.name, response.status)
        if not response.patch:
            return False
        operations = dispatcher.patch_operations(response.patch)
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
