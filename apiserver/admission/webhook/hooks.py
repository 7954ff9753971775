"""Finds webhooks in their configurations, and calls them.

Source: k8s.io/apiserver/pkg/admission/plugin/webhook/{accessors.go,generic,mutating,validating}, 1.36.
"""

import logging
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from kubeskew.apimachinery import errors
from kubeskew.apimachinery.errors import StatusError
from kubeskew.apimachinery.objects import Object
from kubeskew.apiserver.admission import Attributes
from kubeskew.apiserver.admission.dynamic.conditions import Conditions
from kubeskew.apiserver.admission.dynamic.matching import EXEMPT, REVIEWS, Criteria, Invocation
from kubeskew.apiserver.admission.dynamic.versions import Versioned
from kubeskew.apiserver.admission.services import AdmissionServices
from kubeskew.apiserver.admission.webhook import reviews
from kubeskew.apiserver.admission.webhook.reviews import AdmissionResponse, ReviewError, WrongTypeError
from kubeskew.apiserver.caching.store_cache import DerivedFromStore
from kubeskew.apiserver.webhooks.client import CallError, ConfigError

log = logging.getLogger(__name__)

_GROUP = "admissionregistration.k8s.io"
_DEFAULT_SECONDS = 10


class CallingError(Exception):
    """A webhook cannot be called, or its answer is invalid: failurePolicy decides."""


@dataclass(slots=True)
class Hook:
    """Holds a webhook. `uid` tells it from every other of its kind, `name` is the one people know."""

    uid: str
    name: str
    spec: Object
    criteria: Criteria
    conditions: Conditions

    @property
    def ignores_failures(self) -> bool:
        return bool(self.spec.get("failurePolicy") == "Ignore")


class Hooks:
    """The webhooks of one kind of configuration, by the configurations' names; calls them."""

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
        """Returns every webhook, in the order in which they are asked; none about what is exempt."""
        hooks = self._hooks.get()
        return () if hooks and attributes.resource.storage_resource in self._exempt else hooks

    async def invocation(self, hook: Hook, attributes: Attributes, versioned: Versioned) -> Invocation | None:
        """Returns the form in which the webhook is shown the request, None if it does not match."""
        found = hook.criteria.match(attributes, self._services.table, self._services.store)
        if found is None or not await hook.conditions.hold(attributes, found, versioned):
            return None
        return found

    async def call(self, hook: Hook, invocation: Invocation, versioned: Versioned) -> AdmissionResponse:
        """Calls the webhook; passes on warnings and annotations.

        Raises CallingError, and 400 for an impossible dry run.
        """
        attributes, spec = versioned.attributes, hook.spec
        if attributes.dry_run and spec.get("sideEffects") not in {"None", "NoneOnDryRun"}:
            raise reviews.dry_run_unsupported(hook.name)
        uid = self._services.environment.entropy.uid()
        try:
            version = reviews.version_of(spec.get("admissionReviewVersions") or [])
        except ReviewError as error:
            raise _failed(hook, f"could not create admission objects: {error}") from None
        objects = await versioned.object(invocation), await versioned.old(invocation)
        asked = reviews.review(version, uid, attributes, invocation, objects)
        answer = await self._post(hook, asked)
        try:
            response = reviews.admission_response(answer, version, uid, mutating=self._mutating)
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
