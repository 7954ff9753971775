"""The effect of security contexts on containers, and the pods and containers that are refused for them."""

import pytest

from kubeskew.apimachinery.gates import FeatureGates
from kubeskew.apimachinery.versions import Version
from kubeskew.kubelet.containers.environment import ConfigError
from kubeskew.kubelet.containers.runtime_service import ContainerSecurity
from kubeskew.kubelet.features import ContainerFeatures
from kubeskew.kubelet.volumes.security_context import app_armor_refusal, container_security


def security(common, own, image_user="", *, minor=36):
    container = {"name": "c", "securityContext": own}
    metadata = {"name": "p", "namespace": "default", "uid": "u"}
    pod = {"metadata": metadata, "spec": {"securityContext": common, "containers": [container]}}
    features = ContainerFeatures.of(FeatureGates.parse(Version(minor), ""))
    return container_security(pod, container, image_user, features)


@pytest.mark.parametrize(
    ("common", "own", "image_user", "expected"),
    [
        ({}, {}, "", {"run_as_user": 0}),
        ({}, {}, "5:6", {"run_as_user": 5}),
        ({}, {}, "web", {"run_as_user": None}),
        ({"runAsUser": 1, "runAsGroup": 2}, {}, "5", {"run_as_user": 1, "run_as_group": 2}),
        ({"runAsUser": 1, "runAsGroup": 2}, {"runAsUser": 3}, "", {"run_as_user": 3, "run_as_group": 2}),
        ({"fsGroup": 7, "supplementalGroups": [8, 9]}, {}, "",
         {"run_as_user": 0, "supplemental_groups": (7, 8, 9)}),
        ({"supplementalGroupsPolicy": "Strict"}, {}, "", {"run_as_user": 0, "strict_groups": True}),
        ({}, {"privileged": True, "capabilities": {"add": ["NET_ADMIN"], "drop": ["ALL"]}}, "",
         {"run_as_user": 0, "privileged": True, "added_capabilities": ("NET_ADMIN",),
          "dropped_capabilities": ("ALL",)}),
        ({}, {"readOnlyRootFilesystem": True, "allowPrivilegeEscalation": False, "procMount": "Unmasked"}, "",
         {"run_as_user": 0, "read_only_root": True, "no_new_privileges": True, "unmasked_proc": True}),
        ({}, {"allowPrivilegeEscalation": True}, "", {"run_as_user": 0}),
        ({"runAsNonRoot": True}, {"runAsNonRoot": False}, "", {"run_as_user": 0}),
        ({"runAsNonRoot": True}, {"runAsUser": 4}, "", {"run_as_user": 4}),
        ({"runAsNonRoot": True}, {}, "4", {"run_as_user": 4}),
        ({"seccompProfile": {"type": "RuntimeDefault"}, "windowsOptions": {"runAsUserName": "x"}}, {}, "",
         {"run_as_user": 0, "seccomp": "RuntimeDefault"}),
        ({}, {"privileged": True, "seccompProfile": {"type": "Localhost", "localhostProfile": "x"}}, "",
         {"run_as_user": 0, "privileged": True, "seccomp": "Localhost/x"}),
    ],
)  # fmt: skip
def test_effect(common, own, image_user, expected):
    """The container's fields come before the pod's, those before the image's user; none is root."""
    assert security(common, own, image_user) == ContainerSecurity(**expected)


@pytest.mark.parametrize(
    ("common", "own", "image_user", "text"),
    [
        ({}, {"runAsUser": 0}, "", "container's runAsUser breaks non-root policy"),
        ({}, {}, "", "container has runAsNonRoot and image will run as root"),
        ({}, {}, "0:5", "container has runAsNonRoot and image will run as root"),
        ({}, {}, "web:web", ("container has runAsNonRoot and image has non-numeric user (web), cannot verify "
         "user is non-root")),
        ({}, {}, "2147483648", ("container has runAsNonRoot and image has an invalid user id (2147483648). "
         "(Must be 1-(2147483647)): must be between 0 and 2147483647, inclusive")),
    ],
)  # fmt: skip
def test_root_is_refused(common, own, image_user, text):
    """A container that must not run as root names why it cannot be known or would."""
    with pytest.raises(ConfigError) as caught:
        security({"runAsNonRoot": True, **common}, own, image_user)
    assert str(caught.value) == f'{text} (pod: "p_default(u)", container: c)'


def test_range_of_an_images_user_before_1_34():
    """Older kubelets leave it to the runtime."""
    found = security({"runAsNonRoot": True}, {}, "2147483648", minor=33)
    assert found.run_as_user == 2147483648


@pytest.mark.parametrize(("minor", "strict"), [(30, False), (31, True)])
def test_a_policy_of_groups_by_release(minor, strict):
    """A kubelet before 1.31 does not know the field, and later ones heed it with the gate off, too."""
    assert security({"supplementalGroupsPolicy": "Strict"}, {}, minor=minor).strict_groups is strict


@pytest.mark.parametrize(
    ("common", "own", "text"),
    [
        ({"supplementalGroupsPolicy": "No"}, {}, "unsupported supplementalGroupsPolicy: No"),
        ({"seccompProfile": {"type": "Localhost"}}, {},
         "localhostProfile must be set if seccompProfile type is Localhost."),
        ({}, {"seccompProfile": {"type": "Localhost", "localhostProfile": "x"}}, "seccomp is not supported"),
    ],
)  # fmt: skip
def test_what_a_node_does_not_have(common, own, text):
    """Profiles of the node's own are refused, not ignored."""
    with pytest.raises(ConfigError) as caught:
        security(common, own)
    assert str(caught.value) == text


REFUSAL = "Cannot enforce AppArmor: AppArmor is not enabled on the host"


@pytest.mark.parametrize(
    ("common", "own", "annotations", "text"),
    [
        ({}, {}, {}, ""),
        ({"appArmorProfile": {"type": "Unconfined"}}, {}, {}, ""),
        ({"appArmorProfile": {"type": "RuntimeDefault"}}, {}, {}, REFUSAL),
        ({}, {"appArmorProfile": {"type": "Localhost"}}, {}, REFUSAL),
        ({}, {}, {"container.apparmor.security.beta.kubernetes.io/c": "runtime/default"}, REFUSAL),
        ({}, {}, {"container.apparmor.security.beta.kubernetes.io/c": "unconfined"}, ""),
    ],
)
def test_app_armor(common, own, annotations, text):
    """A node without AppArmor does not admit pods that want a profile."""
    spec = {"securityContext": common, "containers": [{"name": "c", "securityContext": own}]}
    assert app_armor_refusal({"metadata": {"annotations": annotations}, "spec": spec}) == text
