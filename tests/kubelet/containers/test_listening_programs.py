"""Programs of images that listen: nginx serves its page to whoever asks at the pod's port."""

import re
from datetime import timedelta

import pytest
from container_programs import container_process, execute

from kubeskew.kubelet.containers.images import arguments, is_known
from kubeskew.kubelet.containers.network import HTTPRequest
from kubeskew.kubelet.containers.servers.nginx import version_of
from kubeskew.kubelet.server.portforward import port_of, serve_connection
from kubeskew.kubelet.server.stats import NodeView

pytestmark = pytest.mark.looptime

WEB = {"name": "web", "image": "nginx:1.27", "ports": [{"containerPort": 80}]}
SHARED = {"volumeMounts": [{"name": "html", "mountPath": "/usr/share/nginx/html"}]}
PAGE_BYTES = 615  # of the page in the image


async def running(node, *containers, **spec):
    """The view of a node whose pod runs these containers."""
    await node.start()
    await node.create(containers=[*containers], **spec)
    await node.running()
    agent = node.agent
    return NodeView(
        "node-1", node.clock, agent._runtime, agent._pods.pods, agent._features, None, agent._started_at,
        node.config.capacity,
    )  # fmt: skip


async def sent(view, text, port=80):
    """Returns what a connection to the pod's port answers to bytes; None if it is refused."""
    [pod] = view.pods()
    found = port_of(view, pod, port)
    if found is None:
        return None
    parts, answered = [text.encode(), b""], bytearray()

    async def read():
        return parts.pop(0)

    async def write(data):
        answered.extend(data)

    await serve_connection(found, read, write)
    return answered.decode()


def logged(node, name="web"):
    return b"".join(line.data for line in container_process(node, name).lines()).decode()


GET = "GET / HTTP/1.1\r\nHost: localhost:8080\r\nUser-Agent: curl/8.5.0\r\n\r\n"


async def test_the_welcome_page(node):
    """The page is the image's, with nginx's headers, and the log has a line in nginx's format."""
    view = await running(node, WEB)
    head, _, body = (await sent(view, GET)).partition("\r\n\r\n")

    assert len(body) == PAGE_BYTES
    assert "<title>Welcome to nginx!</title>" in body
    first, *lines = head.split("\r\n")
    assert first == "HTTP/1.1 200 OK"
    assert [line.partition(":")[0] for line in lines] == [
        "Server", "Date", "Content-Type", "Last-Modified", "ETag", "Content-Length", "Connection",
    ]  # fmt: skip
    assert lines[0] == "Server: nginx/1.27.0"
    assert f"Content-Length: {PAGE_BYTES}" in lines
    time = r"\[\d\d/\w{3}/\d{4}:\d\d:\d\d:\d\d \+0000\]"
    line = rf'127\.0\.0\.1 - - {time} "GET / HTTP/1\.1" 200 615 "-" "curl/8\.5\.0" "-"\n'
    assert re.fullmatch(line, logged(node))


async def test_each_request_of_a_connection_is_answered(node):
    """A connection goes on until the client closes it; the log has the time of each request."""
    view = await running(node, WEB)
    assert (await sent(view, GET + GET)).count("HTTP/1.1 200 OK") == 2
    await node.clock.sleep(90)
    closing = await sent(view, GET.replace("\r\n\r\n", "\r\nConnection: close\r\n\r\n"))
    assert "\r\nConnection: close\r\n" in closing

    times = [line.time for line in container_process(node, "web").lines()]
    assert times[1] - times[0] < timedelta(seconds=1)
    assert times[2] - times[1] >= timedelta(seconds=90)


@pytest.mark.parametrize(
    ("request_line", "status", "log"),
    [
        ("GET /none HTTP/1.1", "404 Not Found", '/html/none" failed (2: No such file or directory), '),
        ("POST / HTTP/1.1", "405 Not Allowed", '"POST / HTTP/1.1" 405 157'),
        ("HEAD / HTTP/1.1", "200 OK", '"HEAD / HTTP/1.1" 200 0'),
        ("GET /../etc/passwd HTTP/1.1", "400 Bad Request", '"GET /../etc/passwd HTTP/1.1" 400 157'),
        ("hello", "400 Bad Request", '"hello" 400 157 "-" "-" "-"'),
    ],
)  # fmt: skip
async def test_what_is_not_a_page(node, request_line, status, log):
    """Errors have nginx's pages, and its lines in the log."""
    view = await running(node, WEB)
    answer = await sent(view, f"{request_line}\r\nHost: h\r\n\r\n")

    assert answer.startswith(f"HTTP/1.1 {status}\r\n")
    assert log in logged(node)


async def test_only_its_port_answers(node):
    """Nobody answers where it does not listen, regardless of what the pod declares."""
    other = {**WEB, "ports": [{"containerPort": 8080}]}
    view = await running(node, other)
    assert await sent(view, GET, 8080) is None
    assert (await sent(view, GET)).startswith("HTTP/1.1 200")


async def test_another_command_serves_nothing(node):
    """A container that runs something else than its image's program does not listen."""
    view = await running(node, {**WEB, "command": ["sleep", "3600"]})
    assert await sent(view, GET) is None


async def test_unknown_images_show_what_they_were_asked(node):
    """A declared port answers with the request, as it is not known what runs there."""
    view = await running(node, {**WEB, "image": "example.com/app"})
    assert '"path":"/x"' in await sent(view, "GET /x HTTP/1.1\r\n\r\n")
    assert await sent(view, "raw bytes") == "raw bytes"
    assert await sent(view, GET, 81) is None


async def test_a_container_of_the_same_pod_asks(node):
    """curl and wget reach the pod's own ports, by its names and its address, and no others."""
    talker = {"name": "talker", "image": "busybox", "command": ["sleep", "3600"]}
    await running(node, WEB, talker)

    code, page = await execute(node, "curl -s localhost; wget -qO- http://127.0.0.1:80/", "talker")
    assert (code, page.count("Welcome to nginx!")) == (0, 4)
    assert await execute(node, "curl -s -o /dev/null -w '%{http_code}\\n' $(hostname)/", "web") == (
        0,
        "200\n",
    )
    assert await execute(node, "curl -sf localhost/none", "talker") == (22, "")
    code, text = await execute(node, "curl -sI localhost", "talker")
    assert text.startswith("HTTP/1.1 200 OK\r\nServer: nginx/1.27.0\r\n")
    assert await execute(node, "nc -z localhost 80 && ! nc -z localhost 81", "talker") == (0, "")
    assert (await execute(node, "curl -s localhost:81", "talker"))[0] == 7
    assert (await execute(node, "wget -q http://example.com/", "talker"))[0] == 1
    assert '"GET / HTTP/1.1" 200 615 "-" "Wget" "-"' in logged(node)


async def test_a_program_asks_as_time_passes(node):
    """A container's own program may ask, too; it waits until somebody listens."""
    script = "until curl -sf localhost > /dev/null; do sleep 1; done; echo up; sleep 3600"
    talker = {"name": "talker", "image": "busybox", "command": ["sh", "-c", script]}
    await running(node, talker, WEB)
    await node.clock.sleep(3)
    assert logged(node, "talker") == "up\n"
    assert logged(node).count("GET / ") == 1


async def test_files_of_a_volume_are_served(node):
    """The page is what another container writes to a volume, as it is when it is asked for."""
    writer = {
        "name": "writer",
        "image": "busybox",
        "command": ["sh", "-c", "echo hi > /w/index.html; sleep 3600"],
    }
    writer["volumeMounts"] = [{"name": "html", "mountPath": "/w"}]
    view = await running(node, writer, {**WEB, **SHARED}, volumes=[{"name": "html", "emptyDir": {}}])
    assert (await sent(view, GET)).endswith("\r\n\r\nhi\n")
    await execute(node, "mkdir /w/d; echo there > /w/d/a.txt", "writer")
    assert "\r\nContent-Type: text/plain\r\n" in await sent(view, GET.replace("GET /", "GET /d/a.txt"))
    assert (await sent(view, GET.replace("GET /", "GET /d/"))).startswith("HTTP/1.1 403 ")
    assert "\r\nLocation: http://localhost:8080/d/\r\n" in await sent(view, GET.replace("GET /", "GET /d"))


async def test_the_log_outlives_the_kubelet(node):
    """After a restart the lines of what was asked from outside are there, once, and it listens again."""
    talker = {
        "name": "talker",
        "image": "busybox",
        "command": ["sh", "-c", "sleep 1; curl -s localhost; sleep 3600"],
    }
    view = await running(node, WEB, talker)
    await node.clock.sleep(5)
    await sent(view, GET)
    before = logged(node)
    assert before.count("GET / ") == 2
    await node.kill()
    await node.start()

    await node.until(lambda: node.agent._runtime.sandboxes())
    assert logged(node) == before


async def test_two_cannot_listen_at_one_port(node):
    """The second fails as a second nginx does."""
    await running(node, WEB)
    code, text = await execute(node, "nginx", "web")
    assert code == 1
    assert text.endswith("nginx: [emerg] bind() to 0.0.0.0:80 failed (98: Address already in use)\n")
    assert await execute(node, "nginx -v", "web") == (0, "nginx version: nginx/1.27.0\n")


async def test_a_container_that_ends_listens_no_more(node):
    """A port is free once the program has ended."""
    view = await running(node, WEB)
    [sandbox] = view.runtime.sandboxes()
    view.runtime.kill_container(sandbox, sandbox.latest("web"), 0.0)
    assert await sent(view, GET) is None
    assert view.runtime.ask(sandbox, 80, HTTPRequest("GET", "/")) is None


@pytest.mark.parametrize(
    ("image", "command", "args", "expected"),
    [
        ("nginx", [], [], ["/docker-entrypoint.sh", "nginx", "-g", "daemon off;"]),
        ("docker.io/library/nginx:1.25", [], ["nginx", "-t"], ["/docker-entrypoint.sh", "nginx", "-t"]),
        ("nginx@sha256:abc", ["sleep"], ["5"], ["sleep", "5"]),
        ("nginx-slim", [], [], []),
        ("busybox", [], ["a"], ["a"]),
    ],
)
def test_what_an_image_runs(image, command, args, expected):
    """A command takes the place of all that the image has, arguments that of its own arguments."""
    assert arguments(image, command, args) == expected


@pytest.mark.parametrize(
    ("tag", "version"),
    [("1.25.3-alpine", "1.25.3"), ("1.27", "1.27.0"), ("", "1.27.3"), ("alpine", "1.27.3"), ("2", "1.27.3")],
)
def test_the_version_of_a_tag(tag, version):
    """A tag with a minor is that release."""
    assert version_of(tag) == version
    assert is_known(f"nginx:{tag}" if tag else "nginx")
