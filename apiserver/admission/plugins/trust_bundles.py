"""Lets only users with the right to attest for a signer write its trust bundles.

Source: k8s.io/kubernetes/plugin/pkg/admission/certificates/ctbattest/admission.go, 1.36.
"""

from kubeskew.apimachinery.objects import Object
from kubeskew.apiserver.admission import CREATE, UPDATE, Attributes, Plugin
from kubeskew.apiserver.authorization import Authorizer
from kubeskew.apiserver.http.request import RequestInfo
from kubeskew.apiserver.user import User

_ABOUT_DELETING = ("finalizers", "ownerReferences", "managedFields", "resourceVersion")


class ClusterTrustBundleAttest(Plugin):
    operations = frozenset({CREATE, UPDATE})
    resources = frozenset({"clustertrustbundles.certificates.k8s.io"})

    def __init__(self, authorizer: Authorizer) -> None:
        self._authorizer = authorizer

    async def validate(self, attributes: Attributes) -> None:
        new, old = attributes.object, attributes.old
        signer = ((new or {}).get("spec") or {}).get("signerName") or ""
        if new is None or not signer or (old is not None and _means(new) == _means(old)):
            return
        if not self._may(attributes.user, signer):
            raise attributes.refuse(f'user not permitted to attest for signerName "{signer}"')

    def _may(self, user: User, signer: str) -> bool:
        """Permission for all signers of the domain (`DOMAIN/*`) is enough."""
        names = (signer, f"{signer.split('/', 1)[0]}/*")
        return any(self._authorizer.authorize(user, _question(name)).allowed for name in names)


def _question(signer: str) -> RequestInfo:
    return RequestInfo(
        verb="attest",
        path="",
        is_resource=True,
        group="certificates.k8s.io",
        version="*",
        resource="signers",
        name=signer,
    )


def _means(bundle: Object) -> Object:
    """Fields that change when the bundle is deleted do not count."""
    metadata = bundle["metadata"]
    kept = {name: value for name, value in metadata.items() if name not in _ABOUT_DELETING}
    return {**bundle, "metadata": kept}
