"""The configuration of a real scheduler, KubeSchedulerConfiguration, which its arguments may name.

Source: cmd/kube-scheduler/app/options/options.go, 1.36: with a configuration, the flags about clients count
for nothing, and those about leader election still count.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import yaml

from kubeskew.cluster.clusterfile import CONFIG_FLAG
from kubeskew.cluster.failures import UserError


def file_of(args: Sequence[str]) -> str:
    """The last argument counts; empty without one."""
    files = [argument.partition("=")[2] for argument in args if argument.startswith(f"{CONFIG_FLAG}=")]
    return files[-1] if files else ""


def read_config(name: str, args: Sequence[str]) -> dict[str, Any] | None:
    """None without a configuration. Raises UserError, in one line, for one that cannot be read; `name` is the
    component's.
    """
    if CONFIG_FLAG in args:
        raise UserError(f"{name}: args: write {CONFIG_FLAG}=FILE")
    file = file_of(args)
    if not file:
        return None
    try:
        config = yaml.safe_load(Path(file).expanduser().read_text())
    except OSError as error:
        raise UserError(f"{name}: cannot read {file}: {error.strerror}") from error
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise UserError(f"{name}: {file} is no YAML: {error}".split("\n")[0]) from error
    if not isinstance(config, dict):
        raise UserError(f"{name}: {file} is no configuration of a scheduler")
    return config


def section(config: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    """Empty without one; what is no mapping is the scheduler's to refuse."""
    found = config.get(name)
    return found if isinstance(found, dict) else {}
