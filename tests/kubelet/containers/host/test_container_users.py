"""The users of containers by their images' files."""

from pathlib import Path

import pytest

from kubeskew.kubelet.containers.host.users import user_of
from kubeskew.kubelet.containers.runtime_service import ContainerRuntimeError, ContainerSecurity

PASSWD = "root:x:0:0:root:/root:/bin/sh\napp:x:7:8:app:/srv:/bin/sh\nbroken\n"
GROUP = "root:x:0:\napps:x:8:\nmore:x:9:app,other\nbad:x:y:app\n"


@pytest.fixture
def root(tmp_path: Path) -> Path:
    (tmp_path / "etc").mkdir()
    (tmp_path / "etc" / "passwd").write_text(PASSWD)
    (tmp_path / "etc" / "group").write_text(GROUP)
    return tmp_path


@pytest.mark.parametrize(
    ("image_user", "security", "expected"),
    [
        ("", {}, (0, 0, [0], "/root")),
        ("app", {}, (7, 8, [8, 9], "/srv")),
        ("app:more", {}, (7, 9, [9], "/srv")),
        ("7", {}, (7, 8, [8, 9], "/srv")),
        ("1234:77", {}, (1234, 77, [77], "/")),
        ("app", {"run_as_user": 5}, (5, 0, [0], "/")),
        ("", {"run_as_user": 7, "run_as_group": 3}, (7, 3, [3, 9], "/srv")),
        ("", {"run_as_user": 7, "supplemental_groups": [4], "strict_groups": True}, (7, 8, [8, 4], "/srv")),
    ],
)
def test_users(root: Path, image_user: str, security: dict[str, object], expected: tuple[object, ...]):
    """The pod's security context comes before the image's user; groups are those of the image's files."""
    assert user_of(root, image_user, ContainerSecurity(**security)) == expected


@pytest.mark.parametrize(
    ("user", "why"), [("nobody", "unable to find user nobody"), ("app:none", "unable to find group none")]
)
def test_unknown_users(root: Path, user: str, why: str):
    """A name that the image's files do not have is refused."""
    with pytest.raises(ContainerRuntimeError, match=why):
        user_of(root, user, ContainerSecurity())


def test_files_that_lead_outside(tmp_path: Path):
    """Links of an image to the machine's files are not followed."""
    (tmp_path / "root" / "etc").mkdir(parents=True)
    (tmp_path / "passwd").write_text("app:x:7:8::/:\n")
    (tmp_path / "root" / "etc" / "passwd").symlink_to(tmp_path / "passwd")
    with pytest.raises(ContainerRuntimeError, match="unable to find user app"):
        user_of(tmp_path / "root", "app", ContainerSecurity())
