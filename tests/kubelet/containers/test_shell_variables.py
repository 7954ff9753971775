"""Variables of the fake containers' shell: what is exported, and how that is listed."""

import pytest
from test_shell import output

HEAD = "HOME HOSTNAME NAME PATH PWD SHLVL"
LISTED = [
    ("bash", "export | grep -E 'NAME|OLDPWD|SHLVL|PWD'", [
        'declare -x HOSTNAME="host"', 'declare -x NAME="value"', "declare -x OLDPWD",
        'declare -x PWD="/"', 'declare -x SHLVL="1"',
    ]),
    ("sh", "export | grep -E 'NAME|OLDPWD|SHLVL|PWD'", [
        "export HOSTNAME='host'", "export NAME='value'", "export PWD='/'", "export SHLVL='1'",
    ]),
    ("bash", "export -p | cut -d= -f1 | cut -d' ' -f3",
     ["HOME", "HOSTNAME", "NAME", "OLDPWD", "PATH", "PWD", "SHLVL"]),
    ("sh", "export -p | cut -d= -f1 | cut -d' ' -f2", HEAD.split()),
    ("bash", "A='x \"q\" $d `b \\ n'; export A; export | grep -F 'A='",
     [r'declare -x A="x \"q\" \$d \`b \\ n"']),
    ("sh", "export A=\"it's\"; export | grep A=", ["export A='it'\"'\"'s'"]),
    ("bash", "export A=$(printf 'a\\nb'); export | grep A=", [r"declare -x A=$'a\nb'"]),
    ("bash", "declare -x A=1; B=2; declare -p A B; declare -x C; export | grep C; C=3; env | grep C=",
     ['declare -x A="1"', 'declare -- B="2"', "declare -x C", "C=3"]),
    ("sh", "A=1; export A; A=2; sh -c 'echo $A'; export -n A; sh -c 'echo x$A'; echo $A", ["2", "x", "2"]),
    ("sh", "export 1a=2; echo $?", ["sh: export: 1a: bad variable name", "2"]),
    ("bash", "export 1a=2; echo $?", ["bash: export: `1a=2': not a valid identifier", "1"]),
    ("sh", "cd /tmp; env | grep PWD | sort; export A=1; unset A; env | grep -c ^A",
     ["OLDPWD=/", "PWD=/tmp", "0"]),
]  # fmt: skip


@pytest.mark.parametrize(("shell", "script", "lines"), LISTED)
def test_exported_variables_are_listed_as_the_shell_does(shell: str, script: str, lines: list[str]):
    """`export` alone prints every exported variable, sorted: bash with `declare -x`, sh with `export`."""
    assert output(shell, "-c", script).splitlines() == lines
