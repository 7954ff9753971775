"""Releases: minors, patches and previews."""

import pytest

from kubeskew.apimachinery.gates import FeatureGates
from kubeskew.apimachinery.versions import NEWEST_PATCHES, Version


def test_without_a_patch_the_newest_is_meant():
    """A minor and its newest patch are one release, as gitVersion says; each is written as it was."""
    newest = f"1.36.{NEWEST_PATCHES[36]}"

    assert Version.parse("1.36") == Version.parse(newest) == Version(36)
    assert hash(Version.parse("1.36")) == hash(Version.parse(newest))
    assert Version.parse("1.36").git_version == f"v{newest}"
    assert (str(Version.parse("1.36")), str(Version.parse(f"v{newest}"))) == ("1.36", newest)
    assert Version.parse("1.33.5").git_version == "v1.33.5"


def test_releases_are_ordered_by_patch():
    """Patches follow each other within a minor, the minor alone last; a preview comes after them."""
    texts = ["1.29.0", "1.29.3", "1.29", "1.29+kep4381", "1.30.0", "1.30"]
    versions = [Version.parse(text) for text in texts]

    assert [str(version) for version in sorted([*versions[3:], *versions[:3]])] == texts


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("1.33.99", "there is no release 1.33.99: the newest patch of 1.33 is 1.33.13"),
        ("1.25.1+kep3063", "there is no release 1.25.1+kep3063: the newest patch of 1.25 is 1.25.0+kep3063"),
        ("1.99.1", "version 1.99.1 is not supported: choose one from 1.26 to 1.37"),
        ("1.33.x", "'1.33.x' is not a Kubernetes version: write 1.36 or 1.35.2"),
    ],
)
def test_a_release_that_never_was_is_refused(text: str, why: str):
    """Unknown minors and patches are reported in one line, with what there is."""
    with pytest.raises(ValueError, match=r"^") as refused:
        Version.parse(text)
    assert str(refused.value).startswith(why)


def test_patches_share_gates():
    """Every patch has the gates of its minor, and its flag refuses in the words of the minor."""
    patch, minor = FeatureGates(Version.parse("1.33.5")), FeatureGates(Version(33))

    assert patch.known() == minor.known()
    with pytest.raises(ValueError, match=r"PreAlpha at emulated version 1\.33$"):
        FeatureGates.parse(Version.parse("1.33.5"), "GangScheduling=true")
