"""Volumes that are directories: emptyDir, hostPath, claims, and those that cannot be had."""

import os
import stat
import subprocess

import pytest

from kubeskew.apimachinery.client.refs import PERSISTENT_VOLUME_CLAIMS, PERSISTENT_VOLUMES
from kubeskew.kubelet.containers.environment import ConfigError
from kubeskew.kubelet.volumes.files import VolumeFiles
from kubeskew.kubelet.volumes.memory import MemoryDirectories
from kubeskew.kubelet.volumes.ownership import give_to_group
from kubeskew.kubelet.volumes.pod_volumes import DirectoryVolumes

pytestmark = pytest.mark.looptime


def mode(path):
    return f"{stat.S_IMODE(path.stat().st_mode):o}"


@pytest.fixture
def removed_by_rm(tmp_path):
    """Removes what pytest cannot remove itself."""
    yield
    subprocess.run(["rm", "-rf", tmp_path], check=True)


@pytest.mark.parametrize(("spec", "expected"), [({}, "777"), ({"securityContext": {"fsGroup": 5}}, "2777")])
async def test_empty_dir(volume_node, spec, expected):
    """An emptyDir is open to all, and given to the pod's group; what is in it stays."""
    pod = volume_node.pod({"name": "v", "emptyDir": {}}, **spec)
    path = (await volume_node.set_up(pod))["v"]
    assert path == volume_node.directory / "kubelet/pods/uid-p/volumes/kubernetes.io~empty-dir/v"
    assert mode(path) == expected
    (path / "f").write_text("x")
    path.chmod(0o700)
    await volume_node.set_up(pod)
    assert (mode(path), (path / "f").read_text()) == ("700", "x")


async def test_unused_volumes_are_not_set_up(volume_node):
    """A volume that no container mounts is not set up, so that it may lack what it names."""
    volumes = {"name": "u", "secret": {"secretName": "no"}}, {"name": "v", "emptyDir": {}}
    pod = volume_node.pod(*volumes, mounts=[{"name": "v", "mountPath": "/v"}])
    assert list(await volume_node.set_up(pod)) == ["v"]


async def test_memory(volume_node):
    """An emptyDir of the medium Memory is where its link in the pod's directory leads, and goes with it."""
    pod = volume_node.pod({"name": "v", "emptyDir": {"medium": "Memory"}})
    path = (await volume_node.set_up(pod))["v"]
    link = volume_node.directory / "kubelet/pods/uid-p/volumes/kubernetes.io~empty-dir/v"
    assert (link.resolve(), mode(path)) == (path, "777")
    volume_node.tear_down("uid-p")
    assert not path.exists()
    assert not link.is_symlink()


async def test_lost_memory_is_given_back(volume_node, tmp_path):
    """A node whose directory is gone leaves nothing in memory once another starts."""
    pod = volume_node.pod({"name": "v", "emptyDir": {"medium": "Memory"}})
    path = (await volume_node.set_up(pod))["v"]
    owner = tmp_path / "kubelet"
    owner.rename(tmp_path / "gone")
    volume_node.volumes.memory.remove_lost()
    assert not path.exists() or path.is_relative_to(tmp_path)


@pytest.mark.parametrize(
    ("source", "made", "cause"),
    [
        ({}, "directory", ""),
        ({"type": "DirectoryOrCreate"}, "directory", ""),
        ({"type": "FileOrCreate"}, "file", ""),
        ({"type": "Directory"}, "", "hostPath type check failed: /tmp/x is not a directory"),
        ({"type": "File"}, "", "hostPath type check failed: /tmp/x is not a file"),
        ({"type": "Socket"}, "", "hostPath type check failed: /tmp/x is not a socket file"),
        ({"type": "CharDevice"}, "", "hostPath type check failed: /tmp/x is not a character device"),
        ({"type": "BlockDevice"}, "", "hostPath type check failed: /tmp/x is not a block device"),
        ({"type": "What"}, "", "What is an invalid volume type"),
        ({"path": "/tmp/../x"}, "", "invalid HostPath `/tmp/../x`: must not contain '..'"),
    ],
)
async def test_host_path(volume_node, source, made, cause):
    """A hostPath is below the node's own root; what is not of its type is refused."""
    place = volume_node.directory / "root/tmp/x"
    place.parent.mkdir()
    pod = volume_node.pod({"name": "v", "hostPath": {"path": "/tmp/x", **source}})
    if cause:
        message = await volume_node.failure(pod)
        assert message == f'MountVolume.SetUp failed for volume "v" : {cause}'
        return
    assert await volume_node.set_up(pod) == {"v": place}
    assert place.is_dir() if made == "directory" else place.is_file()


async def test_a_node_has_a_hosts_file(volume_node):
    """A pod may mount the node's /etc/hosts, which a kubelet that comes again leaves as it is."""
    pod = volume_node.pod({"name": "v", "hostPath": {"path": "/etc/hosts", "type": "File"}})
    place = (await volume_node.set_up(pod))["v"]
    assert place.read_text().startswith("127.0.0.1\tlocalhost\n")
    place.write_text("changed\n")
    volume_node.volumes.root.make()
    assert place.read_text() == "changed\n"


@pytest.mark.parametrize(
    ("place", "target"),
    [("etc", "outside"), ("etc/hosts", "outside/hosts"), ("etc/hosts", "outside/own"), ("var", "outside")],
)
def test_a_nodes_links_do_not_lead_the_kubelet_out(volume_node, tmp_path, place, target):
    """A kubelet that starts again changes nothing outside, and no modes of what is there, though a pod has
    put links into the root of its node."""
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "own").write_text("mine")
    outside.chmod(0o700)
    root = volume_node.directory / "root"
    root.chmod(0o711)
    VolumeFiles().remove_tree(root / place)
    (root / place).symlink_to(tmp_path / target)
    volume_node.volumes.root.make()
    assert (mode(outside), mode(root)) == ("700", "711")
    assert [path.name for path in outside.iterdir()] == ["own"]
    assert (outside / "own").read_text() == "mine"
    assert (root / place).is_symlink()


def test_directories_are_not_made_through_a_link(tmp_path):
    """A link that leads nowhere is refused, and what is new gets its mode whatever the mask is."""
    (tmp_path / "link").symlink_to(tmp_path / "outside")
    with pytest.raises(NotADirectoryError):
        VolumeFiles().make_directories(tmp_path / "link/x", 0o755)
    assert not (tmp_path / "outside").exists()
    before = os.umask(0o077)
    try:
        VolumeFiles().make_directories(tmp_path / "a/b", 0o777)
    finally:
        os.umask(before)
    assert (mode(tmp_path / "a"), mode(tmp_path / "a/b")) == ("755", "755")


@pytest.mark.parametrize(
    ("link", "path", "expected"),
    [
        ("/etc", "/tmp/l/f", "root/etc/f"),
        ("../../../../etc", "/tmp/l/f", "root/etc/f"),
        ("/var/lib/kubelet/plugins", "/tmp/l", "kubelet/plugins"),
        ("x", "/var/lib/kubelet/pods", "kubelet/pods"),
        ("x", "/var/run/cdi", "cdi"),
        ("x", "/var/lib/kubelet2", "root/var/lib/kubelet2"),
    ],
)
async def test_links_do_not_lead_out_of_the_node(volume_node, link, path, expected):
    """Links and `..` are followed as on the node, whose root directory is the end."""
    directory = volume_node.directory / "root/tmp"
    directory.mkdir()
    (directory / "l").symlink_to(link)
    assert volume_node.volumes.root.resolve(path) == volume_node.directory / expected


async def test_link_to_itself(volume_node):
    """A link that leads to itself is an error of the volume."""
    directory = volume_node.directory / "root/tmp"
    directory.mkdir()
    (directory / "l").symlink_to("l")
    message = await volume_node.failure(volume_node.pod({"name": "v", "hostPath": {"path": "/tmp/l"}}))
    cause = "stat /tmp/l: too many levels of symbolic links"
    assert message == f'MountVolume.SetUp failed for volume "v" : {cause}'


async def _claim(node, name="c", phase="Bound", uid=None, mode="Filesystem", **source):
    spec = {"volumeName": "pv"} if phase == "Bound" else {}
    claim = await node.create(PERSISTENT_VOLUME_CLAIMS, name, spec=spec, status={"phase": phase})
    owner = {"uid": uid or claim["metadata"]["uid"]}
    await node.create(PERSISTENT_VOLUMES, "pv", "", spec={"claimRef": owner, "volumeMode": mode, **source})


PROVISIONED = {"hostPath": {"path": "/opt/pv", "type": "DirectoryOrCreate"}}


async def test_claim_of_the_local_provisioner(volume_node):
    """The volume of a claim is a directory of the node."""
    await _claim(volume_node, **PROVISIONED)
    source = {"claimName": "c", "readOnly": True}
    pod = volume_node.pod({"name": "v", "persistentVolumeClaim": source})
    assert await volume_node.set_up(pod) == {"v": volume_node.directory / "root/opt/pv"}
    assert volume_node.manager.mounted("uid-p")["v"].read_only
    volume_node.tear_down("uid-p")
    assert (volume_node.directory / "root/opt/pv").is_dir()


async def test_volume_for_one_pod(volume_node):
    """A volume of the access mode ReadWriteOncePod has one pod at a time."""
    await _claim(volume_node, accessModes=["ReadWriteOncePod"], **PROVISIONED)
    volume = {"name": "v", "persistentVolumeClaim": {"claimName": "c"}}
    await volume_node.set_up(volume_node.pod(volume))
    other = volume_node.pod(volume, name="q")
    text = "volume uses the ReadWriteOncePod access mode and is already in use by another pod"
    assert await volume_node.failure(other) == f'MountVolume.SetUp failed for volume "pv" : {text}'
    volume_node.tear_down("uid-p")
    await volume_node.set_up(other)


async def test_group_of_a_volume(volume_node):
    """A persistent volume may ask for a group that the pod does not name."""
    await _claim(volume_node, **PROVISIONED)
    annotations = {"metadata": {"annotations": {"pv.beta.kubernetes.io/gid": "77"}}}
    await volume_node.client.patch(PERSISTENT_VOLUMES, "pv", "", annotations)
    pod = volume_node.pod({"name": "v", "persistentVolumeClaim": {"claimName": "c"}})
    await volume_node.set_up(pod)
    assert volume_node.manager.groups(pod) == [77]
    pod["spec"]["securityContext"] = {"supplementalGroups": [77]}
    assert volume_node.manager.groups(pod) == []


ATTACH = (
    "Unable to attach or mount volumes: unmounted volumes=[v], unattached volumes=[], "
    "failed to process volumes=[v]: "
)


@pytest.mark.parametrize(
    ("claim", "message"),
    [
        (None, ATTACH + "error processing PVC default/c: failed to fetch PVC from API server: "
         'persistentvolumeclaims "c" not found'),
        ({"phase": "Pending"}, ATTACH + "error processing PVC default/c: PVC is not bound"),
        ({"mode": "Block"}, ATTACH + "volume v has volumeMode Block, but is specified in volumeMounts"),
        ({"nfs": {}}, ATTACH
         + 'failed to get Plugin from volumeSpec for volume "pv" err=no volume plugin matched'),
        ({**PROVISIONED, "nodeAffinity": {"required": {"nodeSelectorTerms": [{"matchExpressions": [
            {"key": "zone", "operator": "In", "values": ["b"]}]}]}}},
         'MountVolume.NodeAffinity check failed for volume "pv" : no matching NodeSelectorTerms'),
        ({**PROVISIONED, "mountOptions": ["ro"]}, ('MountVolume.MountOptionSupport check failed for volume '
         '"pv" : mount options are not supported for this volume type')),
        ({"local": {"path": "/no"}},
         'MountVolume.NewMounter initialization failed for volume "pv" : path "/no" does not exist'),
        ({"csi": {"driver": "d"}}, ('MountVolume.MountDevice failed for volume "pv" : kubernetes.io/csi: '
         "attacher.MountDevice failed to create newCsiDriverClient: driver name d not found in the list of "
         "registered CSI drivers")),
    ],
)  # fmt: skip
async def test_claims_that_cannot_be_had(volume_node, claim, message):
    """The message says how far the kubelet came."""
    if claim is not None:
        await _claim(volume_node, **claim)
    pod = volume_node.pod({"name": "v", "persistentVolumeClaim": {"claimName": "c"}})
    assert await volume_node.failure(pod) == message


async def test_ephemeral_claim_of_another(volume_node):
    """The claim of an ephemeral volume must be the pod's own."""
    await _claim(volume_node, "p-v", **PROVISIONED)
    pod = volume_node.pod({"name": "v", "ephemeral": {}})
    text = "PVC default/p-v was not created for pod default/p (pod is not owner)"
    assert await volume_node.failure(pod) == ATTACH + text


@pytest.mark.parametrize(
    ("volume", "cause"),
    [
        ({"csi": {"driver": "d"}}, ("kubernetes.io/csi: mounter.SetUpAt failed to get CSI client: driver "
         "name d not found in the list of registered CSI drivers")),
        ({"emptyDir": {"medium": "Disk"}}, 'unknown storage medium "Disk"'),
    ],
)  # fmt: skip
async def test_volumes_that_cannot_be_had(volume_node, volume, cause):
    """A volume is refused whose driver or medium the node does not have, in upstream's words."""
    message = await volume_node.failure(volume_node.pod({"name": "v", **volume}))
    assert message == f'MountVolume.SetUp failed for volume "v" : {cause}'


async def test_other_volumes_are_set_up_all_the_same(volume_node):
    """One volume that cannot be set up does not hold back the others; each has its message."""
    bad = [{"name": name, "secret": {"secretName": name}} for name in ("a", "b")]
    pod = volume_node.pod(*bad, {"name": "v", "emptyDir": {}})
    with pytest.raises(ConfigError) as caught:
        await volume_node.manager.set_up(pod)
    assert [text.split('"')[1] for text in caught.value.messages] == ["a", "b"]
    assert list(volume_node.manager.mounted("uid-p")) == ["v"]
    assert not volume_node.manager.is_ready(pod)


async def test_limit_of_an_empty_dir(volume_node):
    """More than the limit is a reason to evict the pod."""
    pod = volume_node.pod({"name": "v", "emptyDir": {"sizeLimit": "1Mi"}})
    path = (await volume_node.set_up(pod))["v"]
    assert volume_node.manager.excess(pod) == ""
    (path / "f").write_bytes(b"x" * (1 << 20))
    assert volume_node.manager.excess(pod) == 'Usage of EmptyDir volume "v" exceeds the limit "1Mi". '


@pytest.mark.parametrize(
    ("policy", "before", "changed"),
    [("Always", 0o2770, True), ("OnRootMismatch", 0o2770, False), ("OnRootMismatch", 0o770, True)],
)
async def test_change_policy(tmp_path, policy, before, changed):
    """OnRootMismatch spares a volume whose directory is the group's already."""
    files = VolumeFiles()
    (tmp_path / "f").write_text("x")
    (tmp_path / "f").chmod(0o600)
    tmp_path.chmod(before)
    give_to_group(files, tmp_path, tmp_path.stat().st_gid, read_only=False, policy=policy)
    assert mode(tmp_path / "f") == ("660" if changed else "600")


async def test_owners_that_cannot_be_changed_are_reported(volume_node, monkeypatch):
    """Without root a volume is set up all the same; the report names it and the group."""

    def refuse(*_):
        raise PermissionError(1, "Operation not permitted")

    monkeypatch.setattr(os, "lchown", refuse)
    volume_node.files = VolumeFiles(is_root=False)
    volume_node.start()
    await volume_node.set_up(volume_node.pod({"name": "v", "emptyDir": {}}, securityContext={"fsGroup": 5}))
    text = 'Files of volume "v" cannot be given to group 5: the kubelet does not run as root'
    assert volume_node.manager.take_unchanged("uid-p") == [text]
    assert volume_node.manager.take_unchanged("uid-p") == []


async def test_locked_directories_are_removed(volume_node):
    """A container may lock a directory for all; it goes with the pod nevertheless."""
    path = (await volume_node.set_up(volume_node.pod({"name": "v", "emptyDir": {}})))["v"]
    (path / "d" / "e").mkdir(parents=True)
    (path / "d").chmod(0)
    volume_node.manager.remove_pod("uid-p")
    assert not path.parent.parent.parent.exists()


async def test_deep_directories_are_removed(volume_node, removed_by_rm):
    """A container may nest directories deeper than any path, and than a function can call itself."""
    path = (await volume_node.set_up(volume_node.pod({"name": "v", "emptyDir": {}})))["v"]
    descriptor = os.open(path, os.O_RDONLY)
    for _ in range(2000):
        os.mkdir("directory", dir_fd=descriptor)
        inner = os.open("directory", os.O_RDONLY, dir_fd=descriptor)
        os.close(descriptor)
        descriptor = inner
    os.close(descriptor)
    volume_node.manager.remove_pod("uid-p")
    assert not path.parent.parent.parent.exists()


async def test_memory_of_another_user_is_left_alone(tmp_path, monkeypatch):
    """A name that another user has taken is not looked into: its owner's file may be a pipe."""
    directory = tmp_path / f"kubeskew-{os.geteuid() + 1}-x"
    directory.mkdir()
    os.mkfifo(directory / "owner")
    other = os.geteuid() + 1
    monkeypatch.setattr(os, "geteuid", lambda: other)
    MemoryDirectories(tmp_path / "node", VolumeFiles(), tmp_path).remove_lost()
    assert directory.is_dir()


async def test_files_are_written_to_no_pipe(tmp_path):
    """A link or pipe that a container put in a file's place is neither followed nor waited for."""
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "link").symlink_to("other")
    for name in ("pipe", "link"):
        with pytest.raises(OSError, match=name):
            VolumeFiles().write(tmp_path / name, b"x", 0o644)
    assert not (tmp_path / "other").exists()


@pytest.mark.parametrize(
    ("volume", "cause"),
    [
        ({"hostPath": {"path": "/a\0b"}}, "stat /a\0b: invalid argument"),
        ({"downwardAPI": {"items": [{"path": "a\0b", "fieldRef": {"fieldPath": "metadata.name"}}]}},
         "open /var/lib/kubelet/pods/uid-p/volumes/kubernetes.io~downward-api/v/a\0b: invalid argument"),
    ],
)  # fmt: skip
async def test_paths_that_no_file_can_have(volume_node, volume, cause):
    """A path with a NUL is refused in an event."""
    message = await volume_node.failure(volume_node.pod({"name": "v", **volume}))
    assert message == f'MountVolume.SetUp failed for volume "v" : {cause}'


async def test_mount_point_that_cannot_be(volume_node):
    """A mount point with a NUL within a volume of the API is refused in an event."""
    mounts = [{"name": "v", "mountPath": "/v"}, {"name": "w", "mountPath": "/v/a\0b"}]
    pod = volume_node.pod({"name": "v", "downwardAPI": {}}, {"name": "w", "emptyDir": {}}, mounts=mounts)
    assert (await volume_node.failure(pod)).endswith("a\0b: invalid argument")


@pytest.mark.parametrize("end", ["tear_down", "remove_pod"])
async def test_only_files_are_removed_in_a_thread(volume_node, end):
    """A pod's volumes are forgotten before their removal is handed to a thread."""
    await volume_node.set_up(volume_node.pod({"name": "v", "emptyDir": {}}))
    known = []

    async def offload(_remove, uid):
        known.append(dict(volume_node.manager.mounted(uid)))

    volumes = DirectoryVolumes(volume_node.volumes, volume_node.events, lambda _: None, offload)
    await getattr(volumes, end)("uid-p")
    assert known == [{}]


async def test_files_of_deep_directories(tmp_path, removed_by_rm):
    """Files are found at any depth that a path can have, each before its directory."""
    deepest = tmp_path
    for _ in range(1500):
        deepest /= "d"
        deepest.mkdir()
    found = [path for path, _ in VolumeFiles().below(tmp_path)]
    assert (found[0], found[-1], len(found)) == (deepest, tmp_path, 1501)


async def test_what_links_lead_to_is_not_removed(volume_node):
    """Taking a volume down does not follow links."""
    path = (await volume_node.set_up(volume_node.pod({"name": "v", "emptyDir": {}})))["v"]
    outside = volume_node.directory / "outside"
    outside.mkdir()
    (path / "l").symlink_to(outside)
    volume_node.tear_down("uid-p")
    assert outside.is_dir()
