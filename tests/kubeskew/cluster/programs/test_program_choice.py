"""The real program of a component: by its own `binary`, by the folder and its version, or none."""

import json
import stat

import pytest
from real_programs import write_program

from kubeskew.apimachinery.versions import Version
from kubeskew.cluster import config, creation, launcher
from kubeskew.cluster.change_plan import Target, check_gates
from kubeskew.cluster.failures import UserError
from kubeskew.cluster.ports import HeldPorts
from kubeskew.cluster.programs.inspection import inspect
from kubeskew.cluster.programs.selection import (
    Choice,
    ProgramFlags,
    choose,
    choose_again,
    parse_real,
)
from kubeskew.cluster.state import Process, RunningProgram, State, StateDir


def recorded(file):
    with HeldPorts() as ports:
        return creation.plan(config.parse(file, "cluster.yaml"), ports)


def chosen(tmp_path, version, programs, real=("scheduler",), **settings) -> Choice:
    """The choice for a scheduler of this version; `programs` are reported versions by folder."""
    for folder, reported in programs.items():
        write_program(tmp_path / folder / "kube-scheduler", reported)
    moving, force = settings.pop("moving", False), settings.pop("force", False)
    bugs = settings.pop("bugs", {})
    state = State(
        {}, binaries=str(tmp_path), real=[*real], programs={"scheduler": settings} if settings else {}
    )
    return choose(state, "scheduler", Version.parse(version), bugs, inspect, moving=moving, force=force)


@pytest.mark.parametrize(
    ("version", "programs", "folder"),
    [
        ("1.36", {"1.36": "v1.36.3"}, "1.36"),
        ("1.36", {"1.36.1": "v1.36.1", "1.36.10": "v1.36.10", "1.36.2": "v1.36.2"}, "1.36.10"),
        ("1.36", {"1.36": "v1.36.3", "1.36.1": "v1.36.1"}, "1.36"),
        ("1.36.1", {"1.36": "v1.36.3", "1.36.1": "v1.36.1"}, "1.36.1"),
        ("1.36.3", {"1.36": "v1.36.3"}, "1.36"),
        ("1.36", {"1.36": "v0.0.0-master+$Format:%H$"}, "1.36"),
        ("1.36", {"1.35": "v1.35.5"}, ""),
        ("1.36.1", {"1.36": "v1.36.3"}, ""),
        ("1.36", {}, ""),
    ],
)
def test_the_folder_of_the_version_has_the_program(tmp_path, version, programs, folder):
    """A version without a patch takes its minor's folder, else the newest patch; one with a patch takes no
    other patch.
    """
    choice = chosen(tmp_path, version, programs)

    path = choice.program.path if choice.program else None
    assert path == (tmp_path / folder / "kube-scheduler" if folder else None)
    assert bool(choice.reason) == (not folder)


def test_a_reason_names_the_program_that_there_is_not(tmp_path):
    """Whoever asked for a real component sees the path that was looked for."""
    assert chosen(tmp_path, "1.36", {}).reason == f"there is no {tmp_path}/1.36/kube-scheduler"
    assert chosen(tmp_path, "1.36.1", {"1.36": "v1.36.3"}).reason == (
        f"{tmp_path}/1.36/kube-scheduler reports v1.36.3"
    )


def test_components_that_are_not_named_stay_emulated(tmp_path):
    """A folder alone makes nothing real."""
    assert chosen(tmp_path, "1.36", {"1.36": "v1.36.3"}, real=()) == Choice()


def test_another_minor_is_refused_without_force(tmp_path):
    """A program in the wrong folder is an error with what to do; with force it runs, and the note says so."""
    with pytest.raises(
        UserError, match=r"kube-scheduler reports v1\.35\.5, and the scheduler is to be 1\.36: "
    ):
        chosen(tmp_path, "1.36", {"1.36": "v1.35.5"})
    forced = chosen(tmp_path, "1.36", {"1.36": "v1.35.5"}, force=True)

    assert (forced.program.version, forced.forced) == ("v1.35.5", True)
    assert chosen(tmp_path, "1.36.1", {"1.36": "v1.36.3"}, force=True).forced
    assert not chosen(tmp_path, "1.36", {"1.36": "v1.36.3"}, force=True).forced
    assert forced.note == "it reports v1.35.5, and runs as 1.36 because of --force"


def test_a_build_without_a_version_is_accepted_with_a_note(tmp_path):
    """The user's own build need not be stamped."""
    choice = chosen(tmp_path, "1.36", {"1.36": "v0.0.0-master+$Format:%H$"})

    assert choice.note == "its build has no version (v0.0.0-master+$Format:%H$)"


def test_a_binary_of_its_own_stands_before_the_folder(tmp_path):
    """It runs wherever the component is at its minor, and is left out when the component moves to another."""
    own = write_program(tmp_path / "mine" / "kube-scheduler", "v1.36.0")
    programs = {"1.36": "v1.36.3", "1.35": "v1.35.5"}

    assert chosen(tmp_path, "1.36", programs, binary=str(own)).program.path == own
    moved = chosen(tmp_path, "1.35", programs, binary=str(own), moving=True)
    assert moved.program.path == tmp_path / "1.35" / "kube-scheduler"
    without = chosen(tmp_path, "1.35", {}, real=(), binary=str(own), moving=True)
    assert (without.program, without.reason) == (None, f"{own} reports v1.36.0")
    with pytest.raises(
        UserError, match=r"reports v1\.36\.0, and the scheduler is to be 1\.35: name a program"
    ):
        chosen(tmp_path, "1.35", {}, real=(), binary=str(own))


@pytest.mark.parametrize(
    ("at", "before", "force", "program", "forced"),
    [
        ("1.36", RunningProgram("own", "v1.36.0"), False, "own", False),
        ("1.35", RunningProgram("own", "v1.36.0"), False, "", False),
        ("1.35", None, False, "", False),
        ("1.35", RunningProgram("own", "v1.36.0", forced=True), False, "own", True),
        ("1.35", None, True, "own", True),
        ("1.35", RunningProgram("own", "v1.35.4"), True, "own", True),
        ("1.35", RunningProgram("own", "v1.35.4"), False, None, False),
    ],
)
def test_a_component_that_starts_again_keeps_what_was_decided(tmp_path, at, before, force, program, forced):
    """A program that was left out on the way to the version stays so, one that was forced stays so, and a new
    build of another minor is refused without force.
    """
    own = write_program(tmp_path / "own", "v1.36.0")
    state = State({}, programs={"scheduler": {"binary": str(own)}})
    process = Process("scheduler", "scheduler", at, {}, program=before)
    wanted = state, process.name, process, Version.parse(at), {}, inspect
    if program is None:
        with pytest.raises(UserError, match=r"reports v1\.36\.0, and the scheduler is to be 1\.35"):
            choose_again(*wanted, force=force)
        return
    choice = choose_again(*wanted, force=force)

    assert (choice.program.path.name if choice.program else "", choice.forced) == (program, forced)


def test_a_component_that_moves_needs_force_again(tmp_path):
    """A program that was forced at one version is not at another."""
    own = write_program(tmp_path / "own", "v1.36.0")
    state = State({}, programs={"scheduler": {"binary": str(own)}})
    before = RunningProgram(str(own), "v1.36.0", forced=True)
    process = Process("scheduler", "scheduler", "1.35", {}, program=before)

    again = state, process.name, process
    assert choose_again(*again, Version(34), {}, inspect).program is None
    assert not choose_again(*again, Version(36), {}, inspect).forced


def test_a_component_with_bugs_switched_stays_emulated(tmp_path):
    """A real program has its bugs whatever the cluster asks for."""
    choice = chosen(tmp_path, "1.36", {"1.36": "v1.36.3"}, bugs={"k8s-134773": False})

    assert choice.program is None
    assert choice.reason == "a real program has the bugs that it has, and k8s-134773=off is set"


@pytest.mark.parametrize(
    ("argument", "text"),
    [
        ("--nope=1", r"has no flag --nope$"),
        ("--kube-api-qsp=5", r"has no flag --kube-api-qsp; did you mean --kube-api-qps\?"),
        ("--kubeconfig=x", r"--kubeconfig is set by kubeskew"),
        ("--feature-gates=A=true", r"set gates by featureGates"),
    ],
)
def test_arguments_are_checked_against_the_programs_flags(tmp_path, argument, text):
    """A flag that the program lacks, or that is not the user's to set, is refused before it starts."""
    with pytest.raises(UserError, match=text):
        chosen(tmp_path, "1.36", {"1.36": "v1.36.3"}, args=[argument])
    assert chosen(tmp_path, "1.36", {"1.36": "v1.36.3"}, args=["--kube-api-qps=200", "-v=4"]).program


@pytest.mark.parametrize(
    ("gates", "text"),
    [
        ({"MyOwnGate": True, "DRAExtendedResource": False}, ""),
        ({"JobManagedBy": True}, ""),
        ({"JobManagedBy": False}, r"feature is locked to true"),
        ({"MyOwnGaet": True}, r"knows no feature gate MyOwnGaet; did you mean MyOwnGate\?"),
        ({"DRAPartitionableDevices": True}, r"knows no feature gate DRAPartitionableDevices"),
    ],
)
def test_gates_are_those_of_the_program(tmp_path, gates, text):
    """Gates that its help lists can be set, also those that no release has; of those that a help leaves out,
    GA ones, the release decides.
    """
    program = inspect(write_program(tmp_path / "kube-scheduler"))
    target = Target(Version(36), gates)
    if not text:
        check_gates("scheduler", target, program)
        return
    with pytest.raises(UserError, match=text):
        check_gates("scheduler", target, program)


@pytest.mark.parametrize(
    ("text", "kinds"),
    [
        ("scheduler", ["scheduler"]),
        ("controller-manager, scheduler", ["scheduler", "controller-manager"]),
        ("scheduler,apiserver", ["apiserver", "scheduler"]),
        ("kubelet,scheduler", ["scheduler", "kubelet"]),
        ("none", []),
    ],
)
def test_real_components_are_named_with_commas(text, kinds):
    """`none` makes all emulated again."""
    assert parse_real(text) == kinds


@pytest.mark.parametrize(
    ("text", "refusal"),
    [
        ("schedular", r"did you mean scheduler\?"),
        ("scheduler,driver", r"there is no component driver"),
        ("", r"name components"),
    ],
)
def test_components_that_cannot_be_real_are_refused(text, refusal):
    """The line says which can."""
    with pytest.raises(UserError, match=refusal):
        parse_real(text)


def test_flags_need_a_folder(tmp_path):
    """A folder that is missing, or not named, is one line; `none` needs no folder."""
    with pytest.raises(UserError, match=r"name it with --binaries DIR or KUBESKEW_BINARIES"):
        ProgramFlags("", ["scheduler"]).apply(State({}))
    with pytest.raises(UserError, match=r"there is no folder .*/none-such"):
        ProgramFlags(str(tmp_path / "none-such"), ["scheduler"]).apply(State({}))
    state = State({}, binaries=str(tmp_path), real=["scheduler"])
    ProgramFlags("", []).apply(state)
    assert (state.binaries, state.real) == (str(tmp_path), [])


@pytest.mark.parametrize(
    ("flags", "known", "result"),
    [
        (ProgramFlags("/b", ["scheduler"]), ("/a", ["controller-manager"]), ("/b", ["scheduler"])),
        (ProgramFlags("/b"), ("/a", ["scheduler"]), ("/b", ["scheduler"])),
        (ProgramFlags("/b", named=False), ("/a", ["scheduler"]), ("/a", ["scheduler"])),
        (ProgramFlags("/b", named=False), ("", ["scheduler"]), ("/b", ["scheduler"])),
        (ProgramFlags("/b", named=False), ("", []), ("", [])),
        (ProgramFlags("/b", ["scheduler"], named=False), ("/a", []), ("/b", ["scheduler"])),
        (ProgramFlags("", ["scheduler"]), ("/a", []), ("/a", ["scheduler"])),
        (ProgramFlags("/b"), ("", []), None),
    ],
)
def test_flags_over_what_is_known(flags, known, result):
    """A folder of the environment counts where none is known; one that is named needs components to take its
    programs, be it that the cluster or its file has named them.
    """
    if result is None:
        with pytest.raises(UserError, match=r"--binaries: name the components that take its programs"):
            flags.over(*known)
        return
    assert flags.over(*known) == result


def test_no_real_components_means_no_binaries_either():
    """--real none makes a component emulated also if a file has named its program; drivers keep theirs."""
    driver = {"binary": "/d"}
    state = State({}, programs={"scheduler": {"binary": "/s"}, "driver/gpu.example.com": driver})
    ProgramFlags("", []).apply(state)

    assert state.programs == {"driver/gpu.example.com": driver}
    ProgramFlags().apply(state)
    assert state.programs == {"driver/gpu.example.com": driver}


def test_a_cluster_file_names_programs(tmp_path):
    """Paths begin at the file; the record has the settings, and the processes their programs."""
    write_program(tmp_path / "out" / "kube-scheduler", "v1.36.0")
    write_program(tmp_path / "releases" / "1.35" / "kube-controller-manager", "v1.35.5")
    file = tmp_path / "cluster.yaml"
    file.write_text(
        "version: '1.36'\nbinaries: releases\nreal: [controller-manager]\nnodes: []\ncomponents:\n"
        "  controller-manager: {version: '1.35'}\n"
        "  scheduler: {binary: ./out/kube-scheduler, args: [--kube-api-qps=200], env: {GOGC: 50}, "
        "featureGates: {MyOwnGate: true}}\n"
    )
    with HeldPorts() as ports:
        state = creation.plan(config.load(file), ports)

    scheduler, manager = state.processes["scheduler"], state.processes["controller-manager"]
    assert (scheduler.program.path, scheduler.program.version) == (
        f"{tmp_path}/out/kube-scheduler",
        "v1.36.0",
    )
    assert manager.program.path == f"{tmp_path}/releases/1.35/kube-controller-manager"
    assert scheduler.gates == {"MyOwnGate": True}
    assert state.programs["scheduler"]["env"] == {"GOGC": "50"}
    assert len({*state.ports()}) == 6  # three processes, two programs, and none that is shared


@pytest.mark.parametrize(
    ("file", "text"),
    [
        (
            {"components": {"metrics-server": {"binary": "x"}}, "metricsServer": True},
            r"cannot be a real program",
        ),
        ({"components": {"scheduler": {"args": ["--v=4"]}}}, r"args: only a real program takes them"),
        ({"real": ["scheduler"]}, r"--real needs a folder"),
        ({"real": ["etcd"]}, r"real"),
        ({"components": {"scheduler": {"binary": "none-such"}}}, r"there is no program .*none-such"),
    ],
)
def test_a_cluster_file_that_cannot_be_is_refused(file, text):
    """Each is one line."""
    with pytest.raises(UserError, match=text):
        recorded({"nodes": [], **file})


def started(tmp_path, file, name):
    """The shim's arguments and its file, for a component of the cluster."""
    directory = StateDir(tmp_path / "state")
    state = recorded(file)
    state.runtime_dir = "/tmp/ks-test"
    process = state.processes[name]
    path = directory.program_file(process.name)
    content = launcher.shim_file(directory, state, process)
    assert not path.exists()
    return launcher.arguments(directory, state, process), json.loads(json.dumps(content))


def test_both_kinds_of_api_server_find_the_metrics_server(tmp_path):
    """An emulated one by its flag, a real one by its shim, through which its selector has it dial."""
    write_program(tmp_path / "1.36" / "kube-apiserver")
    file = {"nodes": [], "metricsServer": True, "binaries": str(tmp_path), "real": ["apiserver"]}
    directory = StateDir(tmp_path / "state")
    with pytest.raises(UserError, match="an earlier kubeskew made this cluster, without a front proxy's"):
        started(tmp_path, file, "apiserver")
    directory.pki.mkdir(parents=True)
    (directory.pki / "front-proxy-ca.crt").touch()
    _, content = started(tmp_path, file, "apiserver")
    state = recorded({"nodes": [], "metricsServer": True})
    arguments = launcher.arguments(directory, state, state.processes["apiserver"])
    service = arguments[arguments.index("--webhook-service-map") + 1]
    assert service == f"kube-system/metrics-server=127.0.0.2:{state.processes['metrics-server'].port}"
    server = content["server"]
    assert [*server["services"]] == ["kube-system/metrics-server"]
    assert server["services"]["kube-system/metrics-server"].startswith("127.0.0.2:")
    assert server["egressSocket"] == "/tmp/ks-test/apiserver.egress"
    (program,) = content["processes"]
    assert f"--egress-selector-config-file={server['egressConfig']}" in program["args"]


def test_a_shim_stands_in_front_of_a_program(tmp_path):
    """It gets what every component gets; the program gets upstream's flags, and its requests the proxy."""
    write_program(tmp_path / "1.36" / "kube-controller-manager")
    file = {
        "nodes": [], "verbosity": 3, "binaries": str(tmp_path), "real": ["controller-manager"],
        "featureGates": {"DRAExtendedResource": False},
        "components": {"controller-manager": {"args": ["--leader-elect=false"]}},
    }  # fmt: skip
    arguments, content = started(tmp_path, file, "controller-manager")

    assert arguments[:3] == ["shim", "--component", "controller-manager"]
    flags = dict(zip(arguments[1::2], arguments[2::2], strict=True))
    assert flags["--emulated-version"] == "1.36"
    assert flags["--feature-gates"] == "DRAExtendedResource=false"
    assert content["lease"] == ""
    (program,) = content["processes"]
    given = dict(argument.split("=", 1) for argument in program["args"])
    assert given["--kubeconfig"] == content["kubeconfig"] != flags["--kubeconfig"]
    assert given["--authentication-kubeconfig"] == flags["--kubeconfig"]
    assert given["--feature-gates"] == "DRAExtendedResource=false"
    assert given["--use-service-account-credentials"] == "true"
    assert given["--v"] == "3"
    assert f"https://127.0.0.1:{given['--secure-port']}" == content["health"]
    assert program["args"][-1] == "--leader-elect=false"


@pytest.mark.parametrize(
    ("args", "lease"),
    [
        ([], "kube-system/kube-scheduler"),
        (["--leader-elect=true"], "kube-system/kube-scheduler"),
        (["--leader-elect-resource-name=mine", "--leader-elect-resource-namespace=default"], "default/mine"),
        (["--leader-elect", "--leader-elect-resource-name", "mine"], "kube-system/mine"),
        (["--leader-elect=false", "--leader-elect=True"], "kube-system/kube-scheduler"),
        (["--leader-elect=false"], ""),
    ],
)
def test_the_shim_knows_the_lease(tmp_path, args, lease):
    """Arguments may name another one, or none; the last one counts."""
    usage = (
        "      --leader-elect   x\n      --leader-elect-resource-name string   x\n"
        "      --leader-elect-resource-namespace string   x"
    )
    write_program(tmp_path / "kube-scheduler", usage=usage)
    components = {"scheduler": {"binary": str(tmp_path / "kube-scheduler"), "args": args}}
    _, content = started(tmp_path, {"nodes": [], "components": components}, "scheduler")

    assert content["lease"] == lease


def test_a_schedulers_configuration_gets_the_kubeconfig(tmp_path):
    """A scheduler reads its kubeconfig from its configuration alone: a private copy has the proxy's."""
    mine = tmp_path / "mine.yaml"
    mine.write_text("apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n"
                    "clientConnection: {qps: 100, kubeconfig: /etc/x}\n")  # fmt: skip
    write_program(tmp_path / "kube-scheduler", usage="      --config string   x")
    settings = {"binary": str(tmp_path / "kube-scheduler"), "args": [f"--config={mine}"]}
    _, content = started(tmp_path, {"nodes": [], "components": {"scheduler": settings}}, "scheduler")

    copy = tmp_path / "state" / "programs" / "scheduler.config.yaml"
    assert content["processes"][0]["args"][-1] == f"--config={copy}"
    assert f"kubeconfig: {content['kubeconfig']}" in copy.read_text()
    assert "qps: 100" in copy.read_text()
    assert stat.S_IMODE(copy.stat().st_mode) == 0o600


@pytest.mark.parametrize(
    ("election", "args", "lease"),
    [
        ("{leaderElect: false}", [], ""),
        ("{leaderElect: false}", ["--leader-elect=true"], "kube-system/kube-scheduler"),
        ("{resourceName: mine, resourceNamespace: default}", [], "default/mine"),
        ("{resourceName: mine}", ["--leader-elect=false"], ""),
        ("null", [], "kube-system/kube-scheduler"),
    ],
)
def test_a_schedulers_configuration_names_the_lease(tmp_path, election, args, lease):
    """The shim waits for the lease of the configuration, unless arguments say otherwise."""
    (tmp_path / "mine.yaml").write_text(f"leaderElection: {election}\n")
    write_program(tmp_path / "kube-scheduler", usage="      --config string   x\n      --leader-elect   x")
    settings = {
        "binary": str(tmp_path / "kube-scheduler"),
        "args": [f"--config={tmp_path / 'mine.yaml'}", *args],
    }
    _, content = started(tmp_path, {"nodes": [], "components": {"scheduler": settings}}, "scheduler")

    assert content["lease"] == lease


def test_a_relative_configuration_begins_at_the_cluster_file(tmp_path):
    """It is found from wherever a later command is run."""
    (tmp_path / "mine.yaml").write_text("kind: KubeSchedulerConfiguration\n")
    write_program(tmp_path / "kube-scheduler", usage="      --config string   x")
    (tmp_path / "cluster.yaml").write_text(
        "nodes: []\ncomponents: {scheduler: {binary: kube-scheduler, args: [--config=mine.yaml, -v=4]}}\n"
    )
    spec = config.load(tmp_path / "cluster.yaml")

    assert spec.overrides["scheduler"]["program"]["args"] == [f"--config={tmp_path}/mine.yaml", "-v=4"]


@pytest.mark.parametrize(
    ("content", "text"),
    [
        (None, r"scheduler: cannot read .*/mine\.yaml: No such file or directory"),
        ("a: [", r"mine\.yaml is no YAML: "),
        ("- a", r"is no configuration of a scheduler"),
    ],
)
def test_a_configuration_that_cannot_be_read_is_refused_before_anything_starts(tmp_path, content, text):
    """The choice of the program refuses it in one line."""
    file = tmp_path / "mine.yaml"
    if content is not None:
        file.write_text(content)
    usage = "      --config string   x"
    write_program(tmp_path / "kube-scheduler", usage=usage)
    settings = {"binary": str(tmp_path / "kube-scheduler"), "args": [f"--config={file}"]}

    with pytest.raises(UserError, match=text) as refused:
        recorded({"nodes": [], "components": {"scheduler": settings}})
    assert "\n" not in str(refused.value)


def test_a_drivers_program_runs_once_for_each_node(tmp_path):
    """Its directories come by environment, as kubernetes-sigs' example driver takes them, and where
    arguments name them.
    """
    program = write_program(tmp_path / "driver")
    file = {
        "nodes": [*({"name": n, "drivers": [{"name": "gpu.example.com"}]} for n in "ab"), {"name": "c"}],
        "components": {
            "driver/gpu.example.com": {
                "binary": str(program), "args": ["--root={pluginsDir}", '--json={"a": 1}'],
                "env": {"NUM_DEVICES": 4, "WHERE": "{node}"},
            }
        },
    }  # fmt: skip
    _, content = started(tmp_path, file, "driver/gpu.example.com")

    assert (content["lease"], content["health"]) == ("", "")
    assert [each["name"] for each in content["processes"]] == ["a", "b"]
    first, second = content["processes"]
    assert first["env"]["NODE_NAME"] == first["env"]["WHERE"] == "a"
    assert first["env"]["NUM_DEVICES"] == "4"
    assert first["args"] == [f"--root={first['env']['KUBELET_PLUGINS_DIRECTORY_PATH']}", '--json={"a": 1}']
    assert (
        first["env"]["KUBELET_REGISTRAR_DIRECTORY_PATH"] != second["env"]["KUBELET_REGISTRAR_DIRECTORY_PATH"]
    )
    assert first["env"]["KUBECONFIG"] == content["kubeconfig"]


def test_flags_change_the_components_that_a_command_names():
    """A restart of the scheduler leaves the controller manager as it is; without names all are meant."""
    state = State({}, binaries="/", real=["scheduler"])
    ProgramFlags("", ["controller-manager"]).apply(state, ["controller-manager"])
    assert state.real == ["scheduler", "controller-manager"]
    ProgramFlags("", []).apply(state, ["scheduler"])
    assert state.real == ["controller-manager"]
    ProgramFlags("", ["scheduler"]).apply(state)
    assert state.real == ["scheduler"]
