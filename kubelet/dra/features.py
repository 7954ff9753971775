"""The differences between releases in DRA on a node: calls to drivers, checkpoint, error texts."""

from pathlib import Path

from kubeskew.apimachinery.features import (
    FeatureTable,
    bug,
    by_release,
    choose,
    made,
    only,
    preview,
    since,
    until,
)
from kubeskew.kubelet.dra import grpc_versions
from kubeskew.kubelet.dra.checkpoint import CheckpointFile, ClassicCodec, Codec, ModernCodec, NoCodec
from kubeskew.kubelet.dra.classic_checksum import EntryForm
from kubeskew.kubelet.dra.grpc_versions import HealthFeatures, ServiceFeatures
from kubeskew.kubelet.dra.texts import CLASSIC, SINCE_34, SINCE_37, ErrorTexts
from kubeskew.kubelet.files import StateFiles

_UNSUPPORTED = "invalid supported gRPC versions of DRA driver plugin {name} at endpoint {endpoint}: {error}"


class ClassicFeatures(FeatureTable):
    """Decisions of the manager of a release up to 1.30."""

    fixed_names: bool = until(27)  # the name of a generated claim is that of pod and entry
    batches: bool = since(28)  # a driver is called once for all claims of a pod
    checks_cached: bool = since(28)  # a claim is read again for each pod that uses it
    skips_unused: bool = since(28)  # claims that no container uses are checked, not prepared
    reads_to_unprepare: bool = only(27)  # a claim that is gone from the API cannot be unprepared
    # A claim comes into the checkpoint when drivers have prepared it, not before.
    notes_late: bool = bug("k8s-116411") | preview("kep4381")
    # Of a resource handle, those that the release decodes; the rest is dropped.
    handle_fields: frozenset[str] = choose(
        preview("kep4381"),
        frozenset({"driverName", "data", "semanticData"}),
        choose(
            only(30),
            frozenset({"driverName", "data", "structuredData"}),
            frozenset({"driverName", "data"}),
        ),
    )


class DRAFeatures(FeatureTable):
    """Decisions of the DRA manager of any release."""

    services: ServiceFeatures = made(
        ServiceFeatures,
        choose=by_release(
            {
                0: grpc_versions.classic("v1alpha3"),  # of the preview: a guess, the draft names none
                26: grpc_versions.classic("v1alpha1"),
                27: grpc_versions.classic("v1alpha2"),
                28: grpc_versions.classic("v1alpha3"),
                31: grpc_versions.alpha,
                32: grpc_versions.newest_or_alpha,
                34: grpc_versions.first_known,
            }
        ),
        invalid=by_release({0: "invalid versions of plugin {name}: {error}", 34: _UNSUPPORTED}),
        failed=by_release({0: "version check of plugin {name} failed: {error}", 34: _UNSUPPORTED}),
        taken=by_release(
            {
                0: "endpoint {endpoint} already registered for plugin {name}",
                34: "endpoint {endpoint} already registered for DRA driver plugin {name}",
            }
        ),
        several=since(33),
        follows_connections=~bug("k8s-132058"),
    )
    # None for kubelets that do not follow health; 1.37 by pull request 139477.
    health: HealthFeatures | None = by_release(
        {
            0: None,
            34: HealthFeatures(("v1alpha1",), careful=False, timeouts=False, messages=False),
            35: HealthFeatures(("v1alpha1",), careful=False, messages=False),
            36: HealthFeatures(("v1alpha1",), careful=False),
            37: HealthFeatures(("v1", "v1alpha1"), careful=True),
        }
    )
    # The format that a kubelet reads and writes; for the preview a guess: the draft has none.
    codec: Codec = choose(
        preview("kep3063"),
        ClassicCodec(EntryForm(handles=False, structured=False)),
        by_release(
            {
                0: NoCodec(),
                27: ClassicCodec(EntryForm(handles=False, structured=False)),
                28: choose(
                    preview("kep4381"),
                    ClassicCodec(EntryForm(handles=True, structured=False, semantic=True)),
                    ClassicCodec(EntryForm(handles=True, structured=False)),
                ),
                30: ClassicCodec(EntryForm(handles=True, structured=True)),
                31: ModernCodec(share_ids=False, skips=False),
                35: ModernCodec(share_ids=True, skips=False),
                37: ModernCodec(share_ids=True, skips=True),
            }
        ),
    )
    texts: ErrorTexts = by_release({0: CLASSIC, 34: SINCE_34, 37: SINCE_37})

    def checkpoint(self, directory: Path, files: StateFiles) -> CheckpointFile:
        """The checkpoint in the kubelet's directory."""
        return CheckpointFile(
            directory, self.codec, files, self.texts.checkpoint, self.texts.checkpoint_entries
        )
