"""The closed list of commands that the simulated runtime acts."""

import pytest

from kubeskew.kubelet.containers.simulated.commands import effect_of, variables_of

VARIABLES = {"A": "v", "B": "w x"}


@pytest.mark.parametrize(
    ("argv", "seconds", "code", "text"),
    [
        (["sleep", "1.5", "1m"], 61.5, 0, ""),
        (["sleep", "infinity"], None, 0, ""),
        (["/bin/true"], 0, 0, ""),
        (["exit", "300"], 0, 44, ""),
        (["echo", "$A", "b"], 0, 0, "$A b\n"),
        (["echo", "-n", "x"], 0, 0, "x"),
        (["env"], 0, 0, "A=v\nB=w x\n"),
        (["sh", "-c", "env"], 0, 0, "A=v\nB=w x\nPWD=/\nSHLVL=1\n"),
        (["printenv", "A"], 0, 0, "v\n"),
        (["printenv", "C"], 0, 1, ""),
        (["sh", "-c", "echo \"$A-${B}\" '$A' c"], 0, 0, "v-w x $A c\n"),
        (["sh", "-c", "echo a\n\necho b;\n"], 0, 0, "a\nb\n"),
        (["sh", "-c", "false && echo a; echo b"], 0, 0, "b\n"),
        (["sh", "-c", "false && echo a && echo b"], 0, 1, ""),
        (["sh", "-ec", "echo a; false; echo b"], 0, 1, "a\n"),
        (["sh", "-ec", "false && true; echo b"], 0, 0, "b\n"),
        (["sh", "-c", "exit 1; sleep 9"], 0, 1, ""),
        (["sh", "-c", "sleep 2; sleep infinity; echo a"], None, 0, ""),
        (["sh", "-c", "sleep 2; false"], 2, 1, ""),
    ],
)
def test_what_a_command_does(argv, seconds, code, text):
    """The time, the exit code and the output of a command follow from its words and variables."""
    effect = effect_of(argv, VARIABLES)
    written = b"".join(output.data for output in effect.lines).decode()
    assert (effect.seconds, effect.exit_code, written) == (seconds, code, text)


@pytest.mark.parametrize(
    "argv",
    [
        [],
        ["nginx"],
        ["sh"],
        ["sh", "script.sh"],
        ["sleep"],
        ["sleep", "x"],
        ["exit", "x"],
        ["env", "A=b", "sh"],
        ["sh", "-c", "echo a; nginx"],
        ["sh", "-c", "echo a | cat"],
        ["sh", "-c", "echo a > /tmp/x"],
        ["sh", "-c", "true || false"],
        ["sh", "-c", "while true; do echo a; done"],
        ["sh", "-c", "while sleep 1; do echo a; done"],
        ["sh", "-c", "echo 'unfinished"],
        ["sh", "-c", "echo $(date)"],
        ["sh", "-c", "echo ${A:-b}"],
        ["sh", "-c", "sleep 1 & sleep 2"],
        ["sh", "-c", "true &&"],
        ["sh", "-c", "; true"],
    ],
)
def test_what_is_not_acted(argv):
    """Another program, and a script with more than a list of these commands, is not known as a whole."""
    assert effect_of(argv, VARIABLES) is None


@pytest.mark.parametrize(("until", "texts"), [(0, "a"), (1.9, "ab"), (3.5, "abab"), (4, "ababa")])
def test_a_loop(until, texts):
    """A loop writes the same, again and again, until it is stopped."""
    effect = effect_of(["sh", "-c", "while true; do echo a; sleep 1.5; echo b; sleep 0.5; done"], {})
    found = [*effect.written(until)]
    assert "".join(output.data.decode().strip() for output in found) == texts
    assert [output.seconds for output in found] == [0, 1.5, 2, 3.5, 4][: len(texts)]
    assert effect.seconds is None


def test_a_loop_may_end():
    """A loop whose list ends the shell runs once."""
    effect = effect_of(["sh", "-c", "while true; do sleep 1; exit 3; done"], {})
    assert (effect.seconds, effect.exit_code, effect.period) == (1, 3, 0)


def test_the_output_of_a_long_loop_is_bounded():
    """Only the last rounds of a loop are kept."""
    effect = effect_of(["sh", "-c", "while true; do echo a; sleep 1; done"], {})
    found = [*effect.written(1e6)]
    assert len(found) == 5_000
    assert found[-1].seconds == 1e6


def test_the_variables_of_a_program():
    """Every container has a path, a host name and a home beside what it is given."""
    assert variables_of({"A": "b"}, "pod-1") == {
        "PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
        "HOSTNAME": "pod-1",
        "A": "b",
        "HOME": "/root",
    }
