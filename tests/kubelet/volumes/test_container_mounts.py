"""The mounts of containers: volumes, subpaths, /etc/hosts, and the file for the termination message."""

from pathlib import Path

import pytest

from kubeskew.kubelet.containers.environment import ConfigError
from kubeskew.kubelet.containers.runtime_service import Mount
from kubeskew.kubelet.device_managers import HostMount
from kubeskew.kubelet.volumes.hostnames import Hostname, pod_hostname
from kubeskew.kubelet.volumes.mounts import PodView

pytestmark = pytest.mark.looptime

HOSTNAME = Hostname("p", "")
HOSTS = """\
# Kubernetes-managed hosts file.
127.0.0.1\tlocalhost
::1\tlocalhost ip6-localhost ip6-loopback
fe00::0\tip6-localnet
fe00::0\tip6-mcastprefix
fe00::1\tip6-allnodes
fe00::2\tip6-allrouters
"""


@pytest.fixture
def machine_hosts():
    return Path("/etc/hosts").read_text()


async def mounts_of(node, pod, *, ips=(), env=None, images=None, hostname=HOSTNAME):
    await node.manager.set_up(pod)
    view = PodView(node.manager.mounted("uid-p"), hostname, ips, images)
    return node.volumes.mounts.mounts(pod, pod["spec"]["containers"][0], view, env or {})


async def failure_of(node, pod, **options):
    with pytest.raises(ConfigError) as caught:
        await mounts_of(node, pod, **options)
    return str(caught.value)


def empty(node, mount, **volume):
    volume = {"name": "v", **(volume or {"emptyDir": {}})}
    return node.pod(volume, mounts=[{"name": "v", "mountPath": "/m", **mount}])


@pytest.mark.parametrize(
    ("mount", "volume", "read_only", "propagation"),
    [
        ({}, {}, False, "None"),
        ({"readOnly": True}, {}, True, "None"),
        ({"mountPropagation": "Bidirectional"}, {}, False, "Bidirectional"),
        ({}, {"downwardAPI": {}}, True, "None"),
    ],
)
async def test_mount_of_a_volume(volume_node, mount, volume, read_only, propagation):
    """A volume is mounted as its mount says; those of the API's data are never written."""
    [found] = await mounts_of(volume_node, empty(volume_node, mount, **volume))
    path = volume_node.manager.mounted("uid-p")["v"].path
    assert found.mount == Mount("/m", path, read_only, propagation)


@pytest.mark.parametrize(
    ("mount", "env", "expected"),
    [
        ({"subPath": "a/b"}, {}, "a/b"),
        ({"subPathExpr": "$(N)/x"}, {"N": "n"}, "n/x"),
        ({"subPathExpr": "$$(N)"}, {"N": "n"}, "$(N)"),
    ],
)
async def test_subpath(volume_node, mount, env, expected):
    """The directories of a subpath are made with the volume's mode."""
    pod = empty(volume_node, mount)
    [found] = await mounts_of(volume_node, pod, env=env)
    path = volume_node.manager.mounted("uid-p")["v"].path / expected
    assert found.mount.host_path == path
    assert path.stat().st_mode & 0o777 == 0o777


async def test_subpath_of_a_file_of_the_api(volume_node):
    """A file of a config map is found where its links lead."""
    labels = {"downwardAPI": {"items": [{"path": "l", "fieldRef": {"fieldPath": "metadata.labels"}}]}}
    [found] = await mounts_of(volume_node, empty(volume_node, {"subPath": "l"}, **labels))
    assert found.mount.host_path.read_text() == 'a="1"'


CREATE = 'failed to create subPath directory for volumeMount "v" of container "main"'
PREPARE = 'failed to prepare subPath for volumeMount "v" of container "main"'


@pytest.mark.parametrize(
    ("mount", "text"),
    [
        ({"subPath": "/a"}, "error SubPath `/a` must not be an absolute path"),
        ({"subPath": "a/../b"}, "unable to provision SubPath `a/../b`: must not contain '..'"),
        ({"subPathExpr": "$(N)$(M)"}, "missing value for M, N"),
        ({"subPathExpr": "$(BACK)"}, "unable to provision SubPath `..`: must not contain '..'"),
        ({"subPathExpr": "$(ABSOLUTE)"}, "error SubPath `/tmp` must not be an absolute path"),
        ({"subPath": "out"}, PREPARE),
        ({"subPath": "out/new"}, CREATE),
        ({"subPath": "up"}, PREPARE),
        ({"subPath": "file/new"}, CREATE),
        ({"subPath": "a\0b"}, CREATE),
        ({"mountPath": "/a\0b"}, "mount /a\0b: invalid argument"),
        ({"mountPropagation": "Some"}, 'invalid MountPropagation mode: "Some"'),
        ({"name": "no"}, 'cannot find volume "no" to mount into container "main"'),
    ],
)
async def test_mounts_that_may_not_be(volume_node, mount, text):
    """A subpath may not lead out of its volume, by its words or by links that a container made."""
    pod = empty(volume_node, {})
    path = (await volume_node.set_up(pod))["v"]
    (path / "out").symlink_to(volume_node.directory)
    (path / "up").symlink_to("..")
    (path / "file").write_text("")
    pod["spec"]["containers"][0]["volumeMounts"] = [{"name": "v", "mountPath": "/m", **mount}]
    env = {"BACK": "..", "ABSOLUTE": "/tmp"}
    assert await failure_of(volume_node, pod, env=env) == text
    assert not (volume_node.directory / "new").exists()


ASKED = (
    'failed to resolve recursive read-only mode: volume "v" requested recursive read-only mode, but it is not'
)


@pytest.mark.parametrize(
    ("version", "supports", "mount", "expected"),
    [
        ("1.36", True, {"recursiveReadOnly": "Enabled", "readOnly": True}, True),
        ("1.36", False, {"recursiveReadOnly": "IfPossible", "readOnly": True}, False),
        ("1.36", True, {"recursiveReadOnly": "Disabled"}, False),
        ("1.36", True, {"recursiveReadOnly": "Enabled"}, f"{ASKED} read-only"),
        ("1.36", False, {"recursiveReadOnly": "Enabled", "readOnly": True},
         f"{ASKED} supported by the runtime"),
        ("1.36", True,
         {"recursiveReadOnly": "Enabled", "readOnly": True, "mountPropagation": "HostToContainer"},
         f'{ASKED} compatible with propagation "HostToContainer"'),
        ("1.30", True, {"recursiveReadOnly": "Enabled", "readOnly": True},
         'recursive read-only mount needs feature gate "RecursiveReadOnlyMounts" to be enabled'),
    ],
)  # fmt: skip
async def test_recursive_read_only(volume_node, version, supports, mount, expected):
    """Mounts below a volume are read-only, too, where the runtime can do that."""
    volume_node.start(version, supports_rro=supports)
    pod = empty(volume_node, mount)
    if isinstance(expected, str):
        assert await failure_of(volume_node, pod) == expected
    else:
        [found] = await mounts_of(volume_node, pod)
        assert found.recursive_read_only is expected


@pytest.mark.parametrize(
    ("version", "mount", "expected"),
    [
        ("1.36", {"subPath": "d"}, ("image/d", True)),
        ("1.36", {"subPath": "no"}, 'image volume "v" has no path "no"'),
        ("1.36", {"subPath": "/d"}, "error SubPath `/d` must not be an absolute path"),
        ("1.32", {"subPath": "d"}, ("image", True)),
        ("1.31", {"subPath": "/d"}, ("image", True)),
    ],
)
async def test_image_volume(volume_node, version, mount, expected):
    """An image's directory is mounted read-only; its subpaths came with 1.33."""
    volume_node.start(version, "" if version == "1.36" else "ImageVolume=true")
    image = volume_node.directory / "image"
    (image / "d").mkdir(parents=True)
    pod = empty(volume_node, mount, image={"reference": "r"})
    if isinstance(expected, str):
        assert await failure_of(volume_node, pod, images={"v": image}) == expected
        return
    [found] = await mounts_of(volume_node, pod, images={"v": image})
    assert found.mount == Mount("/m", volume_node.directory / expected[0], read_only=expected[1])


async def test_image_volume_without_a_runtime_for_it(volume_node):
    """A runtime without image volumes refuses the container."""
    pod = empty(volume_node, {}, image={"reference": "r"})
    assert await failure_of(volume_node, pod) == 'image volume "v" is not supported by the runtime'


async def test_directories_elsewhere_in_a_host_path(volume_node):
    """A container that mounts a directory of the node sees the kubelet's and CDI's in it."""
    pod = empty(volume_node, {"readOnly": True}, hostPath={"path": "/var"})
    found = [mount.mount for mount in await mounts_of(volume_node, pod)]
    directory = volume_node.directory
    assert found == [
        Mount("/m", directory / "root/var", read_only=True),
        Mount("/m/run/cdi", directory / "cdi", read_only=True),
        Mount("/m/lib/kubelet", directory / "kubelet", read_only=True),
    ]
    assert (directory / "root/var/lib/kubelet").is_dir()


@pytest.mark.parametrize(
    ("ips", "hostname", "spec", "expected"),
    [
        (["10.0.0.5"], Hostname("p", ""), {}, HOSTS + "10.0.0.5\tp\n"),
        (["10.0.0.5", "fd::1"], Hostname("p", "sub.default.svc.cluster.local"), {},
         HOSTS + "10.0.0.5\tp.sub.default.svc.cluster.local\tp\nfd::1\tp.sub.default.svc.cluster.local\tp\n"),
        (["10.0.0.5"], Hostname("p", ""), {"hostAliases": [{"ip": "1.2.3.4", "hostnames": ["a", "b"]}]},
         HOSTS + "10.0.0.5\tp\n\n# Entries added by HostAliases.\n1.2.3.4\ta\tb\n"),
        ([], Hostname("p", ""), {}, None),
    ],
)  # fmt: skip
async def test_hosts_file(volume_node, ips, hostname, spec, expected):
    """The managed file names the pod's addresses and aliases; without an address there is none."""
    found = await mounts_of(volume_node, volume_node.pod(**spec), ips=ips, hostname=hostname)
    if expected is None:
        assert found == []
        return
    [hosts] = found
    assert hosts.mount == Mount("/etc/hosts", volume_node.directory / "kubelet/pods/uid-p/etc-hosts")
    assert hosts.mount.host_path.read_text() == expected


async def test_hosts_file_of_the_host_network(volume_node, machine_hosts):
    """A pod in the node's network has the machine's file, marked as such, with its aliases."""
    aliases = [{"ip": "1.2.3.4", "hostnames": ["a"]}]
    [hosts] = await mounts_of(volume_node, volume_node.pod(hostNetwork=True, hostAliases=aliases))
    text = hosts.mount.host_path.read_text()
    assert text.startswith("# Kubernetes-managed hosts file (host network).\n" + machine_hosts)
    assert text.endswith("\n# Entries added by HostAliases.\n1.2.3.4\ta\n")


async def test_own_hosts_file(volume_node):
    """A container that mounts its own /etc/hosts gets no other."""
    pod = empty(volume_node, {"mountPath": "/etc/hosts"})
    assert [mount.name for mount in await mounts_of(volume_node, pod, ips=["10.0.0.5"])] == ["v"]


@pytest.mark.parametrize(
    ("spec", "override", "expected"),
    [
        ({}, True, ("p", "")),
        ({"hostname": "h", "subdomain": "s"}, True, ("h", "s.default.svc.cluster.local")),
        ({"hostname": "h" * 64}, True, ("h" * 63, "")),
        ({"hostname": "h" * 62 + "--"}, True, ("h" * 62, "")),
        ({"hostnameOverride": "o.x", "subdomain": "s"}, True, ("o.x", "")),
        ({"hostnameOverride": "o.x", "subdomain": "s"}, False, ("p", "s.default.svc.cluster.local")),
    ],
)
def test_name_of_a_pods_machine(spec, override, expected):
    """The name is the pod's or what its specification says, cut to what a kernel takes."""
    pod = {"metadata": {"name": "p", "namespace": "default"}, "spec": spec}
    assert pod_hostname(pod, "cluster.local", may_override=override) == expected


def test_full_name_of_a_pods_machine():
    """A pod may have its full name as its machine's, if the kernel takes it."""
    name = Hostname("p", "s.default.svc.cluster.local")
    assert name.of_kernel(is_full=False) == "p"
    assert name.of_kernel(is_full=True) == "p.s.default.svc.cluster.local"
    long = Hostname("p" * 50, "s.default.svc.cluster.local")
    with pytest.raises(ConfigError) as caught:
        long.of_kernel(is_full=True)
    assert str(caught.value).endswith("is too long (64 characters is the max, 78 characters requested)")


@pytest.mark.parametrize(
    ("spec", "path"),
    [({}, "/dev/termination-log"), ({"terminationMessagePath": "tmp/m"}, "/tmp/m")],
)
async def test_file_for_the_termination_message(volume_node, spec, path):
    """Each attempt has a file of its own that everybody may write."""
    pod = volume_node.pod()
    container = {"name": "main", **spec}
    first, second = (volume_node.volumes.mounts.termination_mount(pod, container) for _ in range(2))
    assert first.mount.container_path == path
    assert first.mount.host_path != second.mount.host_path
    assert first.mount.host_path.parent == volume_node.directory / "kubelet/pods/uid-p/containers/main"
    assert first.mount.host_path.stat().st_mode & 0o777 == 0o666
    assert (
        volume_node.volumes.mounts.termination_mount(pod, {**container, "terminationMessagePath": ""}) is None
    )


async def test_mounts_of_devices(volume_node):
    """Drivers mount paths of the node, or of the machine that they may run on; one that is nowhere is made,
    as a directory of the node, unless CDI asks for it.
    """
    make = volume_node.volumes.mounts.device_mounts
    own = volume_node.directory / "own"
    [missing] = make([HostMount("/d", "/var/lib/kubelet/x", True, must_exist=True)])
    assert missing.mount == Mount("/d", volume_node.directory / "kubelet/x", read_only=True)
    assert not missing.mount.host_path.exists()
    assert make([HostMount("/d", "/tmp/made")])[0].mount.host_path.is_dir()
    own.write_text("")
    assert make([HostMount("/d", str(own))])[0].mount.host_path == own
    there = volume_node.volumes.root.place(str(own))
    there.mkdir(parents=True)
    assert make([HostMount("/d", str(own))])[0].mount.host_path == there
