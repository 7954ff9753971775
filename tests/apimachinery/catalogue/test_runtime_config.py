"""Runtime configs: a release takes some of their keys, and refuses the rest in upstream's words."""

import pytest

from kubeskew.apimachinery.catalogue.served_resources import (
    check_for_any_release,
    check_runtime_config,
    known_of,
)
from kubeskew.apimachinery.versions import Version


@pytest.mark.parametrize(
    ("minor", "config", "why"),
    [
        (36, {"nonsense": True}, "runtime-config invalid key nonsense"),
        (36, {"a/b/c/d": True}, "runtime-config invalid key a/b/c/d"),
        (36, {"foo.bar/v1": True, "api/all": True}, "unknown api groups foo.bar"),
        (
            36,
            {"resource.k8s.io/v1alpha9": False},
            "group version resource.k8s.io/v1alpha9 that has not been registered",
        ),
        (
            31,
            {"resource.k8s.io/v1alpha2": True},
            "group version resource.k8s.io/v1alpha2 that has not been registered",
        ),
        (36, {"api/all": False}, "invalid key with only api/all=false"),
    ],
)
def test_a_server_does_not_start_with_what_its_release_does_not_know(minor, config, why):
    """The words are upstream's, for keys of another shape, groups, versions, and nothing at all."""
    with pytest.raises(ValueError, match=f"^{why}$"):
        check_runtime_config(config, Version(minor))


@pytest.mark.parametrize(
    ("minor", "config"),
    [
        (30, {"resource.k8s.io/v1alpha2": True}),
        (36, {"api/all": False, "apps/v1": True, "resource.k8s.io/v1beta1/resourceclaims": True}),
        (36, {"api/ga": True, "api/beta": True, "api/alpha": False}),
    ],
)
def test_a_server_takes_what_its_release_knows(minor, config):
    """API versions that the release has, single resources of them, and all of a stability are taken."""
    check_runtime_config(config, Version(minor))
    assert known_of(config, Version(minor)) == config


def test_a_cluster_gives_each_server_what_it_knows():
    """Keys for other releases are left out; a key that no release knows is refused, with the nearest name."""
    config = {"resource.k8s.io/v1alpha2": True, "resource.k8s.io/v1beta1": True, "api/alpha": True}
    assert [*known_of(config, Version(30))] == ["resource.k8s.io/v1alpha2", "api/alpha"]
    assert [*known_of(config, Version(36))] == ["resource.k8s.io/v1beta1", "api/alpha"]
    check_for_any_release(config)
    with pytest.raises(
        ValueError, match=r"no release has the API resource\.k8s\.io/v1beta9; did you mean resource"
    ):
        check_for_any_release({"resource.k8s.io/v1beta9": True})
