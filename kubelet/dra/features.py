"""The differences between releases in DRA on a node: calls to drivers, checkpoint, error texts."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from kubeskew.apimachinery.gates import FeatureGates
from kubeskew.apimachinery.versions import Version
from kubeskew.kubelet.dra import grpc_versions, texts
from kubeskew.kubelet.dra.checkpoint import CheckpointFile, ClassicCodec, Codec, ModernCodec, NoCodec
from kubeskew.kubelet.dra.classic_checksum import EntryForm
from kubeskew.kubelet.dra.grpc_versions import HealthFeatures, ServiceFeatures
from kubeskew.kubelet.files import StateFiles


@dataclass(frozen=True, slots=True)
class ClassicFeatures:
    """Named decisions of the manager of one release up to 1.30."""

    fixed_names: bool  # until 1.27 the name of a generated claim is that of pod and entry
    batches: bool  # since 1.28 a driver is called once for all claims of a pod
    checks_cached: bool  # since 1.28 a claim is read again for each pod that uses it
    skips_unused: bool  # since 1.28 claims that no container uses are checked, not prepared
    reads_to_unprepare: bool  # 1.27: a claim that is gone from the API cannot be unprepared
    notes_late: bool  # a claim comes into the checkpoint after the call
    handle_fields: frozenset[str]  # of a resource handle, which the release decodes; the rest is dropped

    @classmethod
    def of(cls, version: Version, *, notes_late: bool) -> "ClassicFeatures":
        minor = version.minor
        scheduled = {"structuredData"} if minor == 30 else set()
        if version.preview == "kep4381":
            scheduled = {"semanticData"}
        return cls(
            handle_fields=frozenset({"driverName", "data", *scheduled}),
            fixed_names=minor <= 27,
            batches=minor >= 28,
            checks_cached=minor >= 28,
            skips_unused=minor >= 28,
            reads_to_unprepare=minor == 27,
            notes_late=notes_late,
        )


def rules_for(gates: FeatureGates) -> ServiceFeatures:
    """Returns the row of the table."""
    minor, follows = gates.version.minor, not gates.bugs.present("k8s-132058")
    if minor >= 34:
        text = "invalid supported gRPC versions of DRA driver plugin {name} at endpoint {endpoint}: {error}"
        taken = "endpoint {endpoint} already registered for DRA driver plugin {name}"
        return ServiceFeatures(
            grpc_versions.first_known, text, text, taken, several=True, follows_connections=follows
        )
    choose: Callable[[Sequence[str]], str] = (
        grpc_versions.newest_or_alpha if minor >= 32 else grpc_versions.alpha
    )
    if minor <= 30:
        choose = grpc_versions.classic({26: "v1alpha1", 27: "v1alpha2"}.get(minor, "v1alpha3"))
    return ServiceFeatures(
        choose,
        "invalid versions of plugin {name}: {error}",
        "version check of plugin {name} failed: {error}",
        "endpoint {endpoint} already registered for plugin {name}",
        several=minor >= 33,
        follows_connections=follows,
    )


def health_rules_for(version: Version) -> HealthFeatures | None:
    """Returns the row of the table; None for kubelets that do not follow health."""
    if version.minor < 34:
        return None
    newer = version.minor >= 37  # pull request 139477
    versions = ("v1", "v1alpha1") if newer else ("v1alpha1",)
    return HealthFeatures(versions, careful=newer, timeouts=version.minor >= 35, messages=version.minor >= 36)


def codec_for(version: Version) -> Codec:
    """Returns the format that a kubelet of that release reads and writes."""
    if version.preview == "kep3063":  # a guess: the draft has none
        return ClassicCodec(EntryForm(handles=False, structured=False))
    if version.minor <= 26:
        return NoCodec()
    if version.minor < 31:
        semantic = version.preview == "kep4381"
        form = EntryForm(handles=version.minor >= 28, structured=version.minor == 30, semantic=semantic)
        return ClassicCodec(form)
    return ModernCodec(share_ids=version.minor >= 35, skips=version.minor >= 37)


def checkpoint_for(version: Version, directory: Path, files: StateFiles) -> CheckpointFile:
    """Returns the checkpoint of a kubelet of that release, in the kubelet's directory."""
    found = texts_for(version)
    return CheckpointFile(directory, codec_for(version), files, found.checkpoint, found.checkpoint_entries)


def texts_for(version: Version) -> texts.ErrorTexts:
    """Returns the texts of a release."""
    minor = version.minor
    if minor >= 37:
        return texts.SINCE_37
    return texts.SINCE_34 if minor >= 34 else texts.CLASSIC
