"""Calls the webhooks that may refuse an object, all at once.

Source: k8s.io/apiserver/pkg/admission/plugin/webhook/validating/dispatcher.go, 1.36.
"""

import asyncio
import logging

from kubeskew.apimachinery.errors import StatusError
from kubeskew.apiserver.admission import CONNECT, CREATE, DELETE, UPDATE, Attributes, Plugin
from kubeskew.apiserver.admission.dynamic.matching import Invocation, Versioned
from kubeskew.apiserver.admission.services import AdmissionServices
from kubeskew.apiserver.admission.webhook import dispatcher
from kubeskew.apiserver.admission.webhook.dispatcher import Hook, Hooks, guarded

log = logging.getLogger(__name__)


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
            raise dispatcher.denial(hook.name, response.status)
