"""ClusterTrustBundle: validation, strategy and cells of tables.

Sources: pkg/apis/certificates/validation/validation.go,
pkg/registry/certificates/clustertrustbundle/strategy.go, 1.36.
"""

from collections.abc import Iterator

from kubeskew.apimachinery.field import FieldError, invalid, too_long
from kubeskew.apimachinery.objects import Object
from kubeskew.apimachinery.security.tls import Block, blocks
from kubeskew.apiserver import object_meta
from kubeskew.apiserver.object_meta import IMMUTABLE
from kubeskew.apiserver.registry.generic.builtin import ValidatedAsNew
from kubeskew.apiserver.registry.generic.strategy import StrategyContext
from kubeskew.apiserver.registry.shared.signers import bundle_name_texts, signer_errors
from kubeskew.apiserver.registry.tables.cells import NONE, Cells, Subject

_MAX_BUNDLE = 1024 * 1024

_HIDDEN = "<value omitted>"


def bundle_errors(spec: Object, *, parse: bool = True) -> Iterator[FieldError]:
    """`parse`: the certificates are read, which is not done if they did not change."""
    if spec.get("signerName"):
        yield from signer_errors(spec["signerName"], "spec.signerName")
    if parse:
        yield from _anchor_errors(spec.get("trustBundle") or "", "spec.trustBundle")


def _anchor_errors(text: str, path: str) -> Iterator[FieldError]:
    if len(text.encode()) > _MAX_BUNDLE:
        yield too_long(path, _MAX_BUNDLE)
        return
    places: dict[bytes, list[int]] = {}
    wrong = False
    for position, block in enumerate(blocks(text)):
        problem = _anchor_problem(block)
        if problem:
            wrong = True
            yield invalid(path, _HIDDEN, f"entry {position} {problem}")
        places.setdefault(block.content, []).append(position)
    if wrong:
        return
    if not places:
        yield invalid(path, _HIDDEN, "at least one trust anchor must be provided")
    for found in places.values():
        if len(found) > 1:
            shown = " ".join(map(str, found))
            yield invalid(path, _HIDDEN, f"duplicate trust anchor (indices [{shown}])")


def _anchor_problem(block: Block) -> str:
    """An empty text means that the block is the certificate of an authority."""
    from cryptography import x509  # slow to import, rarely needed

    if block.kind != "CERTIFICATE":
        return f"has bad block type: {block.kind}"
    if block.headers:
        return "has PEM block headers"
    try:
        extensions = x509.load_der_x509_certificate(block.content).extensions
        authority = extensions.get_extension_for_class(x509.BasicConstraints).value.ca
    except x509.ExtensionNotFound:
        authority = False
    except ValueError:
        return "does not parse as X.509"
    return "" if authority else "does not have the CA bit set"


def bundle_update_errors(new: Object, old: Object) -> Iterator[FieldError]:
    after, before = ((bundle.get("spec") or {}).get("signerName") or "" for bundle in (new, old))
    if after != before:
        yield invalid("spec.signerName", after, IMMUTABLE)


class TrustBundleStrategy(ValidatedAsNew):
    allow_unconditional_update = False
    field_labels = ("spec.signerName",)

    def metadata_errors(self, obj: Object, ctx: StrategyContext) -> list[FieldError]:
        signer = (obj.get("spec") or {}).get("signerName") or ""

        def check(name: str, prefix: bool) -> list[str]:
            return bundle_name_texts(name, signer, prefix)

        return object_meta.validate_object_meta(obj["metadata"], ctx.resource.namespaced, check)

    def validate(self, obj: Object, ctx: StrategyContext) -> list[FieldError]:
        return list(bundle_errors(obj.get("spec") or {}))

    def validate_as_new(self, new: Object, old: Object, ctx: StrategyContext) -> list[FieldError]:
        spec, before = new.get("spec") or {}, old.get("spec") or {}
        parse = spec.get("trustBundle") != before.get("trustBundle")
        return list(bundle_errors(spec, parse=parse))

    def validate_update(self, new: Object, old: Object, ctx: StrategyContext) -> list[FieldError]:
        return list(bundle_update_errors(new, old))


def cluster_trust_bundle_cells(subject: Subject) -> Cells:
    return {"SignerName": subject.text("spec", "signerName", default=NONE)}
