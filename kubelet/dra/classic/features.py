"""The differences between the releases of classic DRA on a node, 1.26 to 1.30 and 1.29+kep4381."""

from kubeskew.apimachinery.features import FeatureTable, bug, by_release, choose, only, preview, since, until
from kubeskew.kubelet.dra.classic.checkpoint import FIRST_FORM, ClassicCodec
from kubeskew.kubelet.dra.classic.checksum import EntryForm
from kubeskew.kubelet.dra.classic.node_resources import NAMED_RESOURCES, ResourceForm
from kubeskew.kubelet.dra.classic.semantic_resources import SEMANTIC_RESOURCES


class ClassicFeatures(FeatureTable):
    """Decisions of the manager of a release up to 1.30."""

    # A kubelet calls its own service, for any versions that a plugin announces.
    service: str = by_release({0: "v1alpha1", 27: "v1alpha2", 28: "v1alpha3"})
    # The format that a kubelet reads and writes; 1.26 keeps nothing.
    codec: ClassicCodec | None = by_release(
        {
            0: None,
            27: ClassicCodec(FIRST_FORM),
            28: choose(
                preview("kep4381"),
                ClassicCodec(EntryForm(handles=True, structured=False, semantic=True)),
                ClassicCodec(EntryForm(handles=True, structured=False)),
            ),
            30: ClassicCodec(EntryForm(handles=True, structured=True)),
        }
    )
    # What drivers report to the kubelet, which publishes it; None where they report nothing.
    resources: ResourceForm | None = choose(
        preview("kep4381"), SEMANTIC_RESOURCES, choose(only(30), NAMED_RESOURCES, None)
    )
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
