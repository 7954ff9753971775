"""Makes the AdmissionRequest that webhooks and the expressions of policies read.

Source: k8s.io/apiserver/pkg/admission/plugin/webhook/request/admissionreview.go, 1.36.
"""

from kubeskew.apimachinery.objects import Object
from kubeskew.apimachinery.resources import Resource
from kubeskew.apiserver.admission import CONNECT, Attributes
from kubeskew.apiserver.admission.dynamic.matching import Invocation, requested
from kubeskew.apiserver.user import User

_OPTIONS = {"CREATE": "CreateOptions", "UPDATE": "UpdateOptions", "DELETE": "DeleteOptions"}


def described(attributes: Attributes, invocation: Invocation) -> Object:
    """Makes an AdmissionRequest, without uid and objects."""
    asked = requested(attributes)
    request: Object = {"kind": _kind(invocation), "resource": _resource(invocation.resource)}
    if invocation.subresource:
        request["subResource"] = invocation.subresource
    request |= {"requestKind": _kind(asked), "requestResource": _resource(asked.resource)}
    if asked.subresource:
        request["requestSubResource"] = asked.subresource
    if attributes.name and not attributes.collection:
        request["name"] = attributes.name
    namespace = namespace_of(attributes)
    if namespace:
        request["namespace"] = namespace
    request["operation"] = attributes.operation
    request["userInfo"] = user_info(attributes.user)
    return request


def namespace_of(attributes: Attributes) -> str:
    """Returns the request's namespace; that of a namespace is itself."""
    if attributes.resource.storage_resource == "namespaces":
        return attributes.name
    return attributes.namespace if attributes.resource.namespaced else ""


def _kind(invocation: Invocation) -> Object:
    group, version, kind = invocation.kind
    return {"group": group, "version": version, "kind": kind}


def _resource(resource: Resource) -> Object:
    return {"group": resource.group, "version": resource.version, "resource": resource.plural}


def user_info(user: User) -> Object:
    """Returns a user as `authentication.k8s.io` writes it."""
    info: Object = {"username": user.name}
    if user.uid:
        info["uid"] = user.uid
    if user.groups:
        info["groups"] = list(user.groups)
    if user.extra:
        info["extra"] = {name: list(values) for name, values in user.extra.items()}
    return info


def options_of(attributes: Attributes) -> Object | None:
    """Returns the request's options as the review shows them: none for a CONNECT."""
    if attributes.operation == CONNECT:
        return None
    kind = _OPTIONS[attributes.operation]
    return {"kind": kind, "apiVersion": "meta.k8s.io/v1", **attributes.options}
