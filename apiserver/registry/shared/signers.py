"""Names of signers of certificates, and of the trust bundles that belong to them.

Source: pkg/apis/core/validation/names.go, 1.36.
"""

from collections.abc import Callable, Iterator

from kubeskew.apimachinery import names
from kubeskew.apimachinery.field import FieldError, invalid, required, too_long

_MOST_IN_DOMAIN = 253
_MOST_IN_NAME = _MOST_IN_DOMAIN + 1 + 253 + 1 + 63


def is_kubernetes_signer(signer: str) -> bool:
    domain = signer.partition("/")[0]
    return domain == "kubernetes.io" or domain.endswith(".kubernetes.io")


def signer_errors(signer: str, path: str) -> Iterator[FieldError]:
    """A signer's name is a domain and a path; of each, only the first wrong label is reported."""
    if not signer:
        yield required(path)
        return
    segments = signer.split("/")
    if len(segments) != 2:
        why = "must be a fully qualified domain and path of the form 'example.com/signer-name'"
        yield invalid(path, signer, why)
        return
    domain, name = segments
    if len(domain) > _MOST_IN_DOMAIN:
        yield too_long(path, _MOST_IN_DOMAIN)
    yield from _first_wrong_label(domain, names.dns1123_label, path)
    if "." not in domain:
        yield invalid(path, domain, "should be a domain with at least two segments separated by dots")
    yield from _first_wrong_label(name, names.dns1123_subdomain, path)
    if len(signer) > _MOST_IN_NAME:
        yield too_long(path, _MOST_IN_NAME)


def _first_wrong_label(text: str, check: Callable[[str], list[str]], path: str) -> Iterator[FieldError]:
    for label in text.split("."):
        if texts := check(label):
            yield from (invalid(path, text, f'validating label "{label}": {why}') for why in texts)
            return


def bundle_name_texts(name: str, signer: str, prefix: bool) -> list[str]:
    """With a signer, the name of a bundle has the signer's before it, `:` for `/`."""
    if not signer:
        if ":" in name:
            return ['ClusterTrustBundle without signer name must not have ":" in its name']
        return names.dns1123_subdomain(name, prefix)
    wanted = signer.replace("/", ":") + ":"
    if not name.startswith(wanted):
        return [f"ClusterTrustBundle for signerName {signer} must be named with prefix {wanted}"]
    return names.dns1123_subdomain(name.removeprefix(wanted), prefix)
