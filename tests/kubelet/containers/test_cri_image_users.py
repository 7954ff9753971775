"""The users of images as CRI's statuses have them."""

import pytest

from kubeskew.kubelet.containers.cri import conversion
from kubeskew.kubelet.containers.runtime_service import Image


@pytest.mark.parametrize(
    ("user", "uid", "name"),
    [("1000:1000", 1000, ""), ("7", 7, ""), ("nobody:nogroup", 0, "nobody"), ("", 0, "")],
)
def test_users_are_without_their_groups(user: str, uid: int, name: str):
    """The user of an image is a number or a name, without the group, as containerd has it."""
    found = conversion.image_message(Image("sha256:1", "app@sha256:1", 1, user=user))
    assert (found.uid.value, found.username) == (uid, name)
