"""Sets the defaults of PodCertificateRequest objects.

Source: pkg/apis/certificates/v1alpha1/defaults.go, 1.36.
"""

from kubeskew.apimachinery.objects import Object
from kubeskew.apiserver.registry.defaulting.context import (
    DefaultingContext,
    fill_null,
    struct,
)

CERTIFICATE_SECONDS = 86400


def pod_certificate_request(obj: Object, _: DefaultingContext) -> None:
    fill_null(struct(obj, "spec"), maxExpirationSeconds=CERTIFICATE_SECONDS)
