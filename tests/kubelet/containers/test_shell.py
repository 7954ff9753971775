"""The shell of fake containers: scripts, what they write, and how they end."""

from datetime import UTC, datetime, timedelta

import pytest

from kubeskew.kubelet.containers import container_process
from kubeskew.kubelet.containers.container_process import Setting
from kubeskew.kubelet.containers.execution.files import Mount, Tree
from kubeskew.kubelet.containers.execution.simulating import KEPT_BYTES, KEPT_LINES, Simulation
from kubeskew.kubelet.containers.shell import parsing

START = datetime(2026, 1, 1, tzinfo=UTC)
FAR = START + timedelta(days=1)


def run(
    *argv: str,
    until: datetime = FAR,
    mounts: tuple[Mount, ...] = (),
    directories: tuple[str, ...] = (),
    image: str = "",
) -> Simulation:
    setting = Setting(argv, {"NAME": "value"}, "host", "/", image=image)
    files = container_process.new_files(setting, mounts, START)
    for path in directories:
        files.make_directory(path, START.timestamp())
    simulation = container_process.new_simulation(setting, files, START)
    simulation.advance(until)
    return simulation


def output(*argv: str, **options) -> str:
    return b"".join(line.data for line in run(*argv, **options).lines).decode()


SCRIPTS = {
    "echo hello": "hello\n",
    "echo $NAME ${NAME} ${NONE:-none} ${#NAME}": "value value none 5\n",
    "echo '$NAME' \"$NAME  x\" $NAME'y'": "$NAME value  x valuey\n",
    "false || echo a && echo b": "a\nb\n",
    "true && false; echo $?": "1\n",
    "! true; echo $?": "1\n",
    "echo $(echo inner; echo two)": "inner two\n",
    "echo `echo old`": "old\n",
    "echo $((1 + 2 * 3)) $((7 / 2)) $((5 > 3))": "7 3 1\n",
    "for i in 1 2 3; do echo -n $i; done; echo": "123\n",
    "for i in $(seq 3); do if [ $i = 2 ]; then continue; fi; echo $i; done": "1\n3\n",
    "i=0; while [ $i -lt 3 ]; do i=$((i+1)); done; echo $i": "3\n",
    "until true; do echo never; done": "",
    "while true; do echo once; break; done": "once\n",
    "if [ -f /no ]; then echo a; elif test -d /tmp; then echo b; else echo c; fi": "b\n",
    "(cd /tmp; pwd); pwd": "/tmp\n/\n",
    "{ echo a; echo b; } | wc -l": "2\n",
    "echo a > /tmp/f; echo b >> /tmp/f; cat < /tmp/f; cat /tmp/f | tail -n 1": "a\nb\nb\n",
    "echo err >&2; echo out 2>/dev/null": "err\nout\n",
    "nosuchfile=/x; cat $nosuchfile 2>&1 | grep -c open": "1\n",
    "mkdir -p /a/b; touch /a/b/c /a/b/d; ls /a/b; echo /a/b/*": "c\nd\n/a/b/c /a/b/d\n",
    "cp /etc/hostname /tmp/h; mv /tmp/h /tmp/i; cat /tmp/i; rm /tmp/i; ls /tmp": "host\n",
    "printf '%s-%d\\n' a 1 b 2": "a-1\nb-2\n",
    "export A=1; sh -c 'echo $A'; B=2 sh -c 'echo $B'; echo x$B": "1\n2\nx\n",
    "hostname; whoami; id -u; date +%Y": "host\nroot\n0\n2026\n",
    "printf 'b\\na\\nb\\n' | sort | uniq": "a\nb\n",
    "echo a:b:c | cut -d: -f2; echo abc | tr a-c x-z; echo hello | sed s/l/L/g": "b\nxyz\nheLLo\n",
    "printf '1\\n2\\n' | while read n; do echo got $n; done": "got 1\ngot 2\n",
    "eval 'echo evaluated'; set -e; false; echo never": "evaluated\n",
    "x='a b'; for w in $x; do echo $w; done; for w in \"$x\"; do echo $w; done": "a\nb\na b\n",
    "f=path/to.txt; echo ${f##*/} ${f%.txt}": "to.txt path/to\n",
    "# a comment\necho after # the end": "after\n",
    "echo one; exec echo two; echo three": "one\ntwo\n",
    "x=1; y=2 sh -c 'echo $x$y'": "2\n",
    "echo $((9223372036854775807 + 1))": "-9223372036854775808\n",
    "echo $((99999999999999999999))": "9223372036854775807\n",
    "echo 'c(' | sed 's/(/b/'; echo c | grep '[' 2>/dev/null; echo $?; seq 1 2 4": "cb\n2\n1\n3\n",
    "set -- a b; (shift; echo $1); echo $1 $#": "b\na 2\n",
    ".; echo on": "sh: .: filename argument required\non\n",
    "tar cf /tmp/t.tar -C /etc hostname; mkdir /x; tar xf /tmp/t.tar -C /x; cat /x/hostname": "host\n",
}


@pytest.mark.parametrize("script", SCRIPTS)
def test_what_a_script_writes(script: str):
    """Expansion, redirects, pipes, loops and commands do as in a POSIX shell."""
    assert output("sh", "-c", script) == SCRIPTS[script]


CODES = {
    "exit 3": 3,
    "false": 1,
    "true": 0,
    "echo x; exit 1": 1,
    "cat /nothing": 1,
    "echo 'unterminated": 2,
    "if true": 2,
    "(exit 4)": 4,
    "echo $((1/0))": 2,
    "exit 300": 44,
    "x=a; while true; do x=$x$x; done": 137,
    "set -- a; while true; do set -- $@ $@; done": 137,
    "echo 'sh /tmp/a' > /tmp/a; sh /tmp/a": 139,
    "(" * 3000 + "echo" + ")" * 3000: 139,
}


@pytest.mark.parametrize("script", CODES)
def test_how_a_script_ends(script: str):
    """The exit code is the last command's, or what `exit` says."""
    ending = run("sh", "-c", script).ending
    assert ending is not None
    assert ending.code == CODES[script]


def test_time_passes_as_it_sleeps():
    """Lines carry the time at which they were written; the end comes when the sleeps are over."""
    simulation = run("sh", "-c", "echo a; sleep 3; echo b; exit 1", until=START + timedelta(seconds=2))
    assert [line.data for line in simulation.lines] == [b"a\n"]
    assert simulation.ending is None
    simulation.advance(FAR)
    assert [(line.time - START).total_seconds() for line in simulation.lines] == [0, 3]
    assert (simulation.ending.time - START).total_seconds() == 3


def test_a_loop_without_sleep_does_not_hang():
    """A busy loop takes time, and no more lines are kept than the log has room for."""
    simulation = run("sh", "-c", "while true; do echo x; done", until=START + timedelta(seconds=5))
    assert simulation.ending is None
    assert len(simulation.lines) > 100


def test_a_busy_loop_is_not_followed_at_every_turn():
    """The longer it goes on, the longer a turn takes: a look after a day is no matter of minutes."""
    simulation = run("sh", "-c", "while true; do echo x; done", until=START + timedelta(hours=2))
    assert simulation.wakes_at > START + timedelta(hours=2)
    assert len(simulation.lines) < KEPT_LINES


def test_unknown_programs_run_for_ever():
    """An unknown program neither ends nor writes; the output before it is kept."""
    simulation = run("sh", "-c", "echo starting; /usr/bin/server --flag; echo never")
    assert simulation.ending is None
    assert [line.data for line in simulation.lines] == [b"starting\n"]


@pytest.mark.parametrize("argv", [("sh", "/entrypoint.sh"), ("sh", "-c", ". /entrypoint.sh; echo never")])
def test_scripts_of_the_image_run_for_ever(argv: tuple[str, ...]):
    """A script that is not there may be in the image: nothing is known but that it runs."""
    simulation = run(*argv)
    assert simulation.ending is None
    assert not simulation.lines


def test_long_lines_are_written_in_pieces():
    """A line without end is kept in pieces, and no more of the log than its largest size."""
    script = "x=a; for i in $(seq 16); do x=$x$x; done; while true; do echo -n $x; done"
    simulation = run("sh", "-c", script, until=START + timedelta(seconds=5))
    assert simulation.dropped > 0
    assert sum(len(line.data) for line in simulation.lines) <= KEPT_BYTES


def test_a_read_only_volume_is_not_written():
    """Files of configmaps and secrets can be read, and nothing else."""
    mount = Mount("/etc/config", Tree({"key": b"value"}, read_only=True), read_only=True)
    shown = output("sh", "-c", "cat /etc/config/key; echo; echo x > /etc/config/key", mounts=(mount,))
    assert shown == "value\nsh: can't create /etc/config/key: Read-only file system\n"


@pytest.mark.parametrize("script", ["echo 'a", 'echo "a', "if true; then", "echo $(", "&& b", "a &&", ")"])
def test_what_is_no_script(script: str):
    """A syntax error is found, not run."""
    with pytest.raises(parsing.ShellSyntaxError):
        parsing.parse(script)
