"""Checks gates against what a real program knows.

--help leaves out gates that are GA or deprecated and locked: of these, the release's own table decides.
"""

from collections.abc import Mapping

from kubeskew.apimachinery.gates import FeatureGates, GateError
from kubeskew.apimachinery.known_names import did_you_mean
from kubeskew.apimachinery.versions import Version
from kubeskew.cluster.failures import UserError
from kubeskew.cluster.programs.inspection import Program

_SILENT = ("GA", "Deprecated")


def check_program_gates(name: str, program: Program, version: Version, gates: Mapping[str, bool]) -> None:
    """Raises UserError for a gate that the program does not take, or not with this value."""
    for gate, on in gates.items():
        if gate in program.gates:
            continue
        alone = FeatureGates(version, {gate: on})
        spec = alone.spec(gate)
        if spec is None or spec.stage not in _SILENT:
            hint = did_you_mean(gate, program.gates)
            raise UserError(f"{name}: {program.path} ({program.version}) knows no feature gate {gate}{hint}")
        try:
            alone.validate()
        except GateError as error:
            raise UserError(f"{name}: {program.path} ({program.version}): {error}") from error
