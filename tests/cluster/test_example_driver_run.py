"""The tool that runs dra-example-driver's suite, with a suite and a driver of our own in their places."""

import subprocess
import sys
from pathlib import Path

import pytest

RUN = Path(__file__).parents[2] / "hack" / "checks" / "dra-example-driver" / "run"

# A driver that shows, with its own account, how it was started; it ends when it is seen to.
DRIVER = """\
import asyncio, json, os, signal, sys
from pathlib import Path
from kubeskew.apimachinery.client.refs import CONFIG_MAPS
from kubeskew.apimachinery.client.rest import APIClient

async def main():
    client = APIClient.from_kubeconfig(os.environ["KUBECONFIG"], "driver")
    seen = {name: os.environ[name] for name in ("NODE_NAME", "HEALTH_PORT")}
    seen["cdi"] = os.environ["CDI_ROOT"]
    seen["arguments"] = json.dumps(sys.argv[1:])
    seen["certificate"] = Path(sys.argv[1].partition("=")[2]).read_text()[:27]
    await client.create(CONFIG_MAPS, {"metadata": {"name": "seen"}, "data": seen}, "default")
    ended = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, ended.set)
    await ended.wait()
    Path(os.environ["CDI_ROOT"], "ended").touch()  # the pod's token has ended with the pod
    await client.close()

asyncio.run(main())
"""

# A suite of two specs: one passes if the driver seen what it must, one fails.
SUITE = """\
import asyncio, json, os, sys
from pathlib import Path
sys.path.insert(0, {tests!r})
from until import until
from kubeskew.apimachinery.client.refs import CONFIG_MAPS, PODS, SERVICES, Ref
from kubeskew.apimachinery.client.rest import APIClient
from kubeskew.apimachinery.errors import StatusError

BINDINGS = Ref("rbac.authorization.k8s.io", "v1", "clusterrolebindings", False, "ClusterRoleBinding")
CERTIFICATES = Ref("cert-manager.io", "v1", "certificates", True, "Certificate")
ADMIN = {{"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "cluster-admin"}}
LABELS = {{"app": "driver"}}
POD = {{
    "metadata": {{"name": "driver", "labels": LABELS}},
    "spec": {{
        "serviceAccountName": "default",
        "containers": [{{
            "name": "plugin", "image": "driver", "command": ["driver"],
            "args": ["--cert=/cert/tls.crt", "--port=443"], "ports": [{{"containerPort": 443}}],
            "env": [
                {{"name": "NODE_NAME", "valueFrom": {{"fieldRef": {{"fieldPath": "spec.nodeName"}}}}}},
                {{"name": "CDI_ROOT", "value": "/cdi"}}, {{"name": "HEALTH_PORT", "value": "51515"}},
            ],
            "volumeMounts": [
                {{"name": "cdi", "mountPath": "/cdi"}}, {{"name": "cert", "mountPath": "/cert"}},
            ],
        }}],
        "volumes": [
            {{"name": "cdi", "hostPath": {{"path": "/var/run/cdi"}}}},
            {{"name": "cert", "secret": {{"secretName": "cert"}}}},
        ],
    }},
}}

async def config_map(client, name):
    try:
        return await client.get(CONFIG_MAPS, name, "default")
    except StatusError:
        return None

async def main():
    client = APIClient.from_kubeconfig(os.environ["KUBECONFIG"], "suite")
    account = {{"kind": "ServiceAccount", "name": "default", "namespace": "default"}}
    await client.create(BINDINGS, {{"metadata": {{"name": "b"}}, "roleRef": ADMIN, "subjects": [account]}})
    service = {{"metadata": {{"name": "s"}}, "spec": {{"selector": LABELS, "ports": [{{"port": 443}}]}}}}
    await client.create(SERVICES, service, "default")
    spec = {{"secretName": "cert", "dnsNames": ["s.default.svc"]}}
    kind = {{"apiVersion": "cert-manager.io/v1", "kind": "Certificate"}}
    await client.create(CERTIFICATES, {{**kind, "metadata": {{"name": "c"}}, "spec": spec}}, "default")
    await client.create(PODS, POD, "default")
    seen = (await until(lambda: config_map(client, "seen"), 20))["data"]
    port = json.loads(seen["arguments"])[1].removeprefix("--port=")
    annotations = (await client.get(SERVICES, "s", "default"))["metadata"]["annotations"]
    assert annotations == {{"apiserver.kubeskew.io/local-address": f"127.0.0.1:{{port}}"}}, annotations
    assert (seen["NODE_NAME"], seen["HEALTH_PORT"]) == ("node-1", "0"), seen
    assert Path(seen["cdi"]).is_dir(), seen
    assert port != "443" and seen["certificate"] == "-----BEGIN CERTIFICATE-----", seen
    await client.delete(PODS, "driver", "default")
    await until(lambda: Path(seen["cdi"], "ended").exists(), 20)
    await client.close()

asyncio.run(main())
flag, _, report = sys.argv[1].partition("=")
assert flag == "-ginkgo.json-report" and sys.argv[2:] == ["-ginkgo.focus=x"], sys.argv
spec = {{"LeafNodeType": "It", "ContainerHierarchyTexts": ["Driver"], "RunTime": 10**9}}
passed = {{**spec, "LeafNodeText": "runs", "State": "passed"}}
failed = {{**spec, "LeafNodeText": "flies", "State": "failed", "Failure": {{"Message": "no wings"}}}}
Path(report).write_text(json.dumps([{{"SpecReports": [passed, failed]}}]))
sys.exit(1)
"""


@pytest.mark.cluster
@pytest.mark.xdist_group("cluster")
@pytest.mark.timeout(180)
def test_the_drivers_pods_run_as_processes_and_the_table_says_what_passed(tmp_path):
    """A program that a pod names runs while the pod does, with its account, directories and secrets."""
    (tmp_path / "bin").mkdir()
    (tmp_path / "test" / "e2e").mkdir(parents=True)
    config = tmp_path / "demo" / "scripts" / "kind-cluster-config.yaml"
    config.parent.mkdir(parents=True)
    config.write_text("featureGates: {DRAAdminAccess: true, NoSuchGate: true}\n")
    programs = {"driver": DRIVER, "e2e.test": SUITE.format(tests=str(Path(__file__).parents[1]))}
    for name, source in programs.items():
        program = tmp_path / "bin" / name
        program.write_text(f"#!{sys.executable}\n{source}")
        program.chmod(0o755)

    command = [RUN, tmp_path, "--version", "1.36", "--", "-ginkgo.focus=x"]
    run = subprocess.run(command, capture_output=True, text=True, timeout=150, check=False)

    assert run.stdout.splitlines() == [
        "passed      1.0 s  Driver / runs",
        "failed      1.0 s  Driver / flies",
        "         no wings",
        "1 of 2 passed, 0 not run",
    ], run.stderr
    assert run.returncode == 1
