"""Feature gates: the table, the flag's syntax, what the flag refuses."""

import pytest
from recorded import DATA

from kubeskew.apimachinery.gates import FeatureGates, GateError, GateSpec, parse_overrides
from kubeskew.apimachinery.versions import SUPPORTED, Version


@pytest.mark.parametrize(
    ("gate", "minor", "stage", "default", "locked"),
    [
        ("DRAExtendedResource", 34, "Alpha", False, False),
        ("DRAExtendedResource", 35, "Alpha", False, False),
        ("DRAExtendedResource", 36, "Beta", True, False),
        ("DRAExtendedResource", 37, "GA", True, True),
        ("DynamicResourceAllocation", 26, "Alpha", False, False),
        ("DynamicResourceAllocation", 34, "GA", True, False),
        ("DynamicResourceAllocation", 35, "GA", True, True),
        ("DRADeviceTaintRules", 36, "Beta", False, False),
        ("SidecarContainers", 28, "Alpha", False, False),
        ("SidecarContainers", 36, "GA", True, True),
        ("ValidatingAdmissionPolicy", 28, "Beta", False, False),
        ("DRAWorkloadResourceClaims", 37, "Beta", False, False),
        ("DRAFractionalCapacityRange", 37, "Beta", False, False),
        ("APIServingWithRoutine", 30, "Alpha", False, False),
        ("GangScheduling", 35, "Alpha", False, False),
        ("GangScheduling", 36, "Alpha", False, False),
        ("AppArmor", 26, "Beta", True, False),
        ("AllowServiceExternalIPs", 36, "GA", True, False),
        ("AppArmor", 32, "GA", True, True),
        ("CPUManager", 32, "GA", True, True),
        ("ContextualLogging", 29, "Alpha", False, False),
        ("ContextualLogging", 30, "Beta", True, False),
        ("EventedPLEG", 27, "Beta", False, False),
        ("InTreePluginAWSUnregister", 26, "Alpha", False, False),
        ("InformerResourceVersion", 30, "Alpha", False, False),
        ("JobTrackingWithFinalizers", 28, "GA", True, True),
        ("LegacyServiceAccountTokenTracking", 26, "Alpha", False, False),
        ("MaxUnavailableStatefulSet", 35, "Beta", False, False),
        ("MultiCIDRRangeAllocator", 28, "Alpha", False, False),
        ("MutatingAdmissionPolicy", 30, "Alpha", False, False),
        ("OpenAPIV3", 26, "Beta", True, False),
        ("OrderedNamespaceDeletion", 30, "Beta", False, False),
        ("SchedulerQueueingHints", 28, "Beta", False, False),
        ("UserNamespacesStatelessPodsSupport", 27, "Alpha", False, False),
        ("UserNamespacesSupport", 28, "Alpha", False, False),
    ],
)
def test_stage_per_release(gate: str, minor: int, stage: str, default: bool, locked: bool) -> None:
    """A gate has the stage, default and lock of the newest entry that is not newer than the release."""
    assert FeatureGates(Version(minor)).spec(gate) == GateSpec(stage, default, locked)


def test_unfinished_gates_of_1_36() -> None:
    """The alpha and beta gates of 1.36 are exactly those that its kube-scheduler lists in --help."""
    lines = (DATA / "gates-1.36.txt").read_text("utf-8").splitlines()
    listed = {(name, stage, default == "true") for name, stage, default in map(str.split, lines)}

    gates = FeatureGates(Version(36))

    ours = {(name, spec.stage, spec.default) for name in gates.known() if (spec := gates.spec(name))}
    assert {row for row in ours if row[1] in {"Alpha", "Beta"}} == listed


@pytest.mark.parametrize(
    ("minor", "gate"),
    [
        (26, "SuspendJob"),  # locked in 1.24, gone two releases later
        (28, "PodHasNetworkCondition"),
        (28, "UserNamespacesStatelessPodsSupport"),
        (30, "AdvancedAuditing"),
        (33, "AppArmor"),
        (36, "InTreePluginPortworxUnregister"),
        (37, "GangScheduling"),
        (37, "WorkloadAwarePreemption"),
        (37, "PreventStaticPodAPIReferences"),
    ],
)
def test_removed_gates(minor: int, gate: str) -> None:
    """A gate that a release no longer has is unknown to its flag, regardless of the value."""
    for value in ("true", "false"):
        with pytest.raises(GateError, match=f"^unrecognized feature gate: {gate}$"):
            FeatureGates.parse(Version(minor), f"{gate}={value}")


def test_gang_scheduling_needs_workloads() -> None:
    """GangScheduling is taken at 1.36 with GenericWorkload only; upstream's test clusters set both."""
    FeatureGates.parse(Version(36), "GangScheduling=true,GenericWorkload=true")
    with pytest.raises(GateError, match=r"depends on features that are disabled: \[GenericWorkload\]"):
        FeatureGates.parse(Version(36), "GangScheduling=true")


@pytest.mark.parametrize(
    ("minor", "gates", "missing"),
    [
        (35, "UserNamespacesHostNetworkSupport=true,NodeDeclaredFeatures=false", ""),
        (36, "UserNamespacesHostNetworkSupport=true,NodeDeclaredFeatures=false", "[NodeDeclaredFeatures]"),
        (36, "WorkloadAwarePreemption=true,GangScheduling=false", "[GangScheduling]"),
    ],
)
def test_dependencies_are_those_of_the_release(minor: int, gates: str, missing: str) -> None:
    """A gate needs what it needs in that very minor."""
    try:
        FeatureGates.parse(Version(minor), gates)
        refused = ""
    except GateError as error:
        refused = str(error)

    assert missing in refused
    assert bool(missing) == bool(refused)


@pytest.mark.parametrize(
    ("version", "overrides", "on"),
    [
        ("1.35.3", {}, True),
        ("1.35.3", {"MaxUnavailableStatefulSet": False}, False),
        ("1.35.3", {"AllBeta": False}, False),
        ("1.35.4", {}, False),
        ("1.36", {}, False),
    ],
)
def test_a_patch_that_switched_a_gate_off_is_a_known_bug(
    version: str, overrides: dict[str, bool], on: bool
) -> None:
    """Releases with 137409 have MaxUnavailableStatefulSet on by default; it may be switched off there."""
    assert FeatureGates(Version.parse(version), overrides).enabled("MaxUnavailableStatefulSet") is on


@pytest.mark.parametrize("version", SUPPORTED, ids=str)
def test_defaults_are_valid(version: Version) -> None:
    """The defaults of every release, and all alpha and beta gates on, break no rule of the flag."""
    FeatureGates(version).validate()
    FeatureGates.parse(version, "AllAlpha=true,AllBeta=true")


@pytest.mark.parametrize(
    ("minor", "text", "error"),
    [
        (36, "Foo=true", "unrecognized feature gate: Foo"),
        (36, "Foo", "missing bool value for Foo"),
        (36, "Foo=x", 'invalid value of Foo=x, err: strconv.ParseBool: parsing "x": invalid syntax'),
        (37, "SidecarContainers=true", "unrecognized feature gate: SidecarContainers"),
        (
            33,
            "DRAExtendedResource=true",
            (
                "cannot set feature gate DRAExtendedResource to true, "
                "feature is PreAlpha at emulated version 1.33"
            ),
        ),
        (
            37,
            "DRAExtendedResource=false",
            "cannot set feature gate DRAExtendedResource to false, feature is locked to true",
        ),
        (
            36,
            "DRAWorkloadResourceClaims=true",
            (
                "DRAWorkloadResourceClaims is enabled, but depends on features "
                "that are disabled: [GenericWorkload]"
            ),
        ),
        (
            35,
            "DynamicResourceAllocation=false,DRAPartitionableDevicesType=true",
            (
                "[cannot set feature gate DRAPartitionableDevicesType to true, "
                "feature is PreAlpha at emulated version 1.35, "
                "cannot set feature gate DynamicResourceAllocation to false, feature is locked to true]"
            ),
        ),
    ],
)
def test_refused_flags(minor: int, text: str, error: str) -> None:
    """The flag's errors have upstream's wording."""
    with pytest.raises(GateError) as raised:
        FeatureGates.parse(Version(minor), text)

    assert str(raised.value) == error


def test_syntax() -> None:
    """Empty items are skipped, spaces trimmed, booleans are Go's, and a flag round trip keeps the gates."""
    assert parse_overrides(" B = T ,, A=0,") == {"B": True, "A": False}

    gates = FeatureGates.parse(Version(35), "DRAExtendedResource=true,DRADeviceTaints=1")

    assert gates.flag() == "DRADeviceTaints=true,DRAExtendedResource=true"
    assert FeatureGates.parse(Version(35), gates.flag()) == gates


def test_all_alpha_yields_to_single_gates() -> None:
    """AllAlpha turns on what is alpha, except what is set by name; removed gates are none of its business."""
    gates = FeatureGates.parse(Version(35), "AllAlpha=true,DRAConsumableCapacity=false")

    assert gates.enabled("DRAExtendedResource")
    assert not gates.enabled("DRAConsumableCapacity")
    assert not gates.enabled("DRAControlPlaneController")


def test_unknown_names_are_off_and_removed_ones_keep_their_end() -> None:
    """Asking for any name is safe: not yet there is off, graduated and removed is on."""
    assert not FeatureGates(Version(26)).enabled("DRAExtendedResource")
    assert not FeatureGates(Version(36)).enabled("NoSuchGate")
    assert FeatureGates(Version(37)).enabled("SidecarContainers")
    assert not FeatureGates(Version(37)).knows("SidecarContainers")


def test_warnings() -> None:
    """Setting a gate that is on its way out is reported."""
    assert FeatureGates.parse(Version(36), "DRAPrioritizedList=true").warnings() == [
        "Setting GA feature gate DRAPrioritizedList=true. It will be removed in a future release."
    ]
