"""The files of config maps, secrets, the pod's fields, tokens, trust anchors and certificates in volumes."""

from datetime import timedelta

import pytest

from kubeskew.apimachinery.client.refs import CONFIG_MAPS, NODES, SECRETS, SERVICE_ACCOUNTS, Ref

pytestmark = pytest.mark.looptime

BUNDLES = Ref("certificates.k8s.io", "v1beta1", "clustertrustbundles", False, "ClusterTrustBundle")
REQUESTS = Ref("certificates.k8s.io", "v1beta1", "podcertificaterequests", True, "PodCertificateRequest")
PEM = "-----BEGIN CERTIFICATE-----\nYWJj\n-----END CERTIFICATE-----\n"
OTHER_PEM = "-----BEGIN CERTIFICATE-----\nZGVm\n-----END CERTIFICATE-----\n"


@pytest.mark.parametrize(
    ("volume", "expected"),
    [
        ({"configMap": {"name": "cm"}}, {"a": ("1", "644"), "b": ("2", "644"), "raw": ("x", "644")}),
        ({"configMap": {"name": "cm", "defaultMode": 0o400, "items": [{"key": "a", "path": "d/e"}]}},
         {"d/e": ("1", "400")}),
        ({"configMap": {"name": "cm", "items": [{"key": "a", "path": "f", "mode": 0o777}]}},
         {"f": ("1", "777")}),
        ({"configMap": {"name": "cm", "optional": True, "items": [{"key": "no", "path": "f"}]}}, {}),
        ({"configMap": {"name": "no", "optional": True}}, {}),
        ({"secret": {"secretName": "s", "defaultMode": 0o600}}, {"k": ("hush", "600")}),
        ({"downwardAPI": {"items": [{"path": "l", "fieldRef": {"fieldPath": "metadata.labels"}}]}},
         {"l": ('a="1"', "644")}),
        ({"projected": {"defaultMode": 0o440, "sources": [
            {"configMap": {"name": "cm", "items": [{"key": "a", "path": "x/a"}]}},
            {"secret": {"name": "s", "items": [{"key": "k", "path": "x/k", "mode": 0o600}]}},
            {"serviceAccountToken": {"path": "token", "expirationSeconds": 600}},
        ]}}, {"x/a": ("1", "440"), "x/k": ("hush", "600"), "token": ("token-1", "440")}),
    ],
)  # fmt: skip
async def test_files_of_a_volume(volume_node, contents, volume, expected):
    """Keys are files with their modes, at their paths; what is optional may be missing."""
    await volume_node.create(CONFIG_MAPS, "cm", data={"a": "1", "b": "2"}, binaryData={"raw": "eA=="})
    await volume_node.create(SECRETS, "s", data={"k": "aHVzaA=="})
    paths = await volume_node.set_up(volume_node.pod({"name": "v", **volume}))
    assert contents(paths["v"]) == expected


@pytest.mark.parametrize(
    ("volume", "cause"),
    [
        ({"configMap": {"name": "no"}}, 'configmap "no" not found'),
        ({"secret": {"secretName": "no"}}, 'secret "no" not found'),
        ({"configMap": {"name": "cm", "items": [{"key": "k", "path": "p"}]}},
         "configmap references non-existent config key: k"),
        ({"projected": {"sources": [{"configMap": {"name": "no"}}, {"secret": {"name": "no"}}]}},
         '[configmap "no" not found, secret "no" not found]'),
        ({"downwardAPI": {"items": [{"path": "p", "resourceFieldRef": {
            "containerName": "x", "resource": "limits.cpu"}}]}}, "container x not found"),
        ({"projected": {"sources": [{"clusterTrustBundle": {"path": "p", "name": "no"}}]}},
         'while getting ClusterTrustBundle: clustertrustbundle.certificates.k8s.io "no" not found'),
    ],
)  # fmt: skip
async def test_messages_about_what_is_missing(volume_node, volume, cause):
    """The message names the step and the volume, and what is missing in the words of upstream's plugins."""
    await volume_node.create(CONFIG_MAPS, "cm", data={"a": "1"})
    volume_node.start(gates="ClusterTrustBundleProjection=true,ClusterTrustBundle=true")
    message = await volume_node.failure(volume_node.pod({"name": "v", **volume}))
    assert message == f'MountVolume.SetUp failed for volume "v" : {cause}'


async def test_layout_and_update(volume_node, contents):
    """Files are links through `..data` to a directory named by the time, which an update replaces."""
    await volume_node.create(CONFIG_MAPS, "cm", data={"a": "1", "gone": "x"})
    pod = volume_node.pod({"name": "v", "configMap": {"name": "cm"}})
    path = (await volume_node.set_up(pod))["v"]
    assert path == volume_node.directory / "kubelet/pods/uid-p/volumes/kubernetes.io~configmap/v"
    first = str((path / "..data").readlink())
    assert str((path / "a").readlink()) == "..data/a"
    assert first.startswith("..20")
    await volume_node.set_up(pod)
    assert str((path / "..data").readlink()) == first
    patch = {"data": {"a": "2", "gone": None, "new": "3"}}
    await volume_node.client.patch(CONFIG_MAPS, "cm", "default", patch)
    await volume_node.set_up(pod)
    assert str((path / "..data").readlink()) != first
    assert contents(path) == {"a": ("2", "644"), "new": ("3", "644")}
    assert not (path / first).exists()


async def test_immutable_objects_are_read_once(volume_node, contents):
    """The successor of an immutable config map is not seen while a pod uses the first one."""
    await volume_node.create(CONFIG_MAPS, "cm", data={"a": "1"}, immutable=True)
    pod = volume_node.pod({"name": "v", "configMap": {"name": "cm"}})
    path = (await volume_node.set_up(pod))["v"]
    await volume_node.client.delete(CONFIG_MAPS, "cm", "default")
    await volume_node.create(CONFIG_MAPS, "cm", data={"a": "2"})
    await volume_node.set_up(pod)
    assert contents(path)["a"][0] == "1"
    volume_node.tear_down("uid-p")
    assert contents((await volume_node.set_up(pod))["v"])["a"][0] == "2"


async def test_tokens_are_replaced_in_time(volume_node, contents):
    """A token is kept until four fifths of its life, and as long as it is valid if no other can be had."""
    source = {"serviceAccountToken": {"path": "t", "expirationSeconds": 1000, "audience": "vault"}}
    pod = volume_node.pod({"name": "v", "projected": {"sources": [source]}}, serviceAccountName="sa")

    async def token(seconds):
        await volume_node.clock.sleep(seconds)
        return contents((await volume_node.set_up(pod))["v"])["t"][0]

    assert await token(0) == "token-1"
    assert await token(780) == "token-1"
    assert await token(25) == "token-2"
    volume_node.tokens.refusal = "no"
    assert await token(900) == "token-2"
    await volume_node.clock.sleep(101)
    assert "expired and refresh failed: no" in await volume_node.failure(pod)
    assert volume_node.tokens.requests[0] == {
        "audiences": ["vault"],
        "expirationSeconds": 1000,
        "boundObjectRef": {"apiVersion": "v1", "kind": "Pod", "name": "p", "uid": "uid-p"},
    }


@pytest.mark.parametrize(
    ("version", "spec", "mode", "owner", "link"),
    [
        ("1.36", {}, "644", (-1, -1), (-1, -1)),
        ("1.36", {"securityContext": {"runAsUser": 7}}, "600", (7, -1), (7, -1)),
        ("1.35", {"securityContext": {"runAsUser": 7}}, "600", (7, -1), (-1, -1)),
        ("1.36", {"securityContext": {"fsGroup": 5}}, "640", (-1, 5), (-1, 5)),
    ],
)
async def test_owner_of_tokens(volume_node, contents, version, spec, mode, owner, link):
    """A token is private to the pod's user or group, if all containers have one."""
    volume_node.start(version)
    source = {"serviceAccountToken": {"path": "t/token"}}
    pod = volume_node.pod({"name": "v", "projected": {"sources": [source]}}, **spec)
    path = (await volume_node.set_up(pod))["v"]
    assert contents(path)["t/token"][1] == mode
    owners = volume_node.files.owners
    assert (owners.get("token", (-1, -1)), owners.get("t", (-1, -1))[0]) == (owner, link[0])


async def test_trust_bundles(volume_node, contents):
    """Certificates of all bundles of a signer are in the file, each once."""
    volume_node.start(gates="ClusterTrustBundleProjection=true,ClusterTrustBundle=true")
    for name, text in (("a", PEM), ("b", PEM + "text\n" + OTHER_PEM)):
        spec = {"signerName": "s/x", "trustBundle": text}
        await volume_node.create(BUNDLES, name, "", spec=spec)
    source = {"clusterTrustBundle": {"path": "ca", "signerName": "s/x", "labelSelector": {}}}
    path = (await volume_node.set_up(volume_node.pod({"name": "v", "projected": {"sources": [source]}})))["v"]
    text = contents(path)["ca"][0]
    assert sorted([text[: len(PEM)], text[len(PEM) :]]) == [PEM, OTHER_PEM]


async def test_pod_certificates(volume_node, contents):
    """The kubelet asks for a certificate, waits for it, and asks again when it is time."""
    volume_node.start(gates="PodCertificateRequest=true")
    await volume_node.create(NODES, "node-1", "")
    await volume_node.create(SERVICE_ACCOUNTS, "default")
    source = {"podCertificate": {"signerName": "s/x", "keyType": "ECDSAP256", "credentialBundlePath": "b"}}
    pod = volume_node.pod({"name": "v", "projected": {"sources": [source]}})
    waits = 'MountVolume.SetUp failed for volume "v" : credential bundle is not issued yet'
    assert [await volume_node.failure(pod), await volume_node.failure(pod)] == [waits, waits]

    async def issue():
        [request] = (await volume_node.client.list(REQUESTS, "default"))["items"]
        assert request["spec"]["stubPKCS10Request"]
        request["status"] = {
            "conditions": [{"type": "Issued"}],
            "certificateChain": PEM,
            "beginRefreshAt": (volume_node.clock.now() + timedelta(hours=1)).strftime("%Y-%m-%dT%H:%M:%SZ"),
        }
        name = request["metadata"]["name"]
        await volume_node.client.patch(REQUESTS, name, "default", request, subresource="status")

    await issue()
    path = (await volume_node.set_up(pod))["v"]
    text = contents(path)["b"][0]
    assert text.startswith("-----BEGIN PRIVATE KEY-----")
    assert text.endswith(PEM)
    await volume_node.clock.sleep(2 * 3600)
    await volume_node.set_up(pod)
    assert len((await volume_node.client.list(REQUESTS, "default"))["items"]) == 2


async def test_denied_certificates(volume_node):
    """A refusal is for ever, with an event."""
    volume_node.start(gates="PodCertificateRequest=true")
    await volume_node.create(NODES, "node-1", "")
    await volume_node.create(SERVICE_ACCOUNTS, "default")
    source = {"podCertificate": {"signerName": "s/x", "keyType": "ED25519", "keyPath": "k"}}
    pod = volume_node.pod({"name": "v", "projected": {"sources": [source]}})
    await volume_node.failure(pod)
    [request] = (await volume_node.client.list(REQUESTS, "default"))["items"]
    request["status"] = {"conditions": [{"type": "Denied", "reason": "No", "message": "never"}]}
    name = request["metadata"]["name"]
    await volume_node.client.patch(REQUESTS, name, "default", request, subresource="status")
    text = 'PodCertificateRequest was permanently denied: reason="No" message="never"'
    assert await volume_node.failure(pod) == f'MountVolume.SetUp failed for volume "v" : {text}'
    event = f'PodCertificateRequest default/{name} was denied, reason="No", message="never"'
    assert volume_node.events.found == [("Denied", event)]
