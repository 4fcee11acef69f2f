"""All terms of Isaac Lab are sorted by the state that they keep: ``isaaclab_terms.csv`` has a row for each.

If this test fails after an update of Isaac Lab, read the terms that are new, and all that have changed.

==============  ======================================================================================================
state           where a term keeps what outlives a call
==============  ======================================================================================================
none            nowhere
environment     in the simulation, in rows of the environments that it is called for
simulation      in something that all environments share
term            in the term, with a row per environment
configuration   in configurations of the environment or of other terms
==============  ======================================================================================================

==============  ======================================================================================================
handling        what LedgerLab does
==============  ======================================================================================================
rows            it calls the term for held-out slots with their own random streams, and restores what was declared
reset           Isaac Lab resets the term when an episode starts
played          it plays episodes twice, and names the term if they differ
declared        held-out slots keep the declared values; if they can't, the score is invalid
training        the curriculum does not run for held-out slots, and does not see their rows
kind            it refuses the mode or the part of the scene
draw            it refuses the draw, as it has no row for each environment that resets, or is none of torch
refused         it refuses the term by its name
==============  ======================================================================================================
"""

from __future__ import annotations

import ast
import csv
import importlib.metadata
import importlib.util
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from ledger_lab.errors import UserError

ROWS = list(csv.DictReader((Path(__file__).parent / "isaaclab_terms.csv").open(encoding="utf-8")))
BASES = {"ManagerTermBase", "ActionTerm", "CommandTerm"}
NO_TERMS = ("recorders", "symmetry", "utils")
"""Modules beside the terms: records of demonstrations, mirrored samples for learners, helpers."""
HANDLINGS = {
    "none": {""},
    "environment": {"rows", "reset", "played", "draw", "kind", "training"},
    "simulation": {"declared", "played", "draw", "refused"},
    "term": {"rows", "reset", "played", "draw", "kind", "training"},
    "configuration": {"declared"},
}


def modules() -> Iterator[tuple[str, ast.Module]]:
    """Yield the modules of Isaac Lab and its tasks that define terms, without importing them."""
    for package, folders in (("isaaclab", ["envs/mdp"]), ("isaaclab_tasks", ["core/**/mdp", "contrib/**/mdp"])):
        spec = importlib.util.find_spec(package)
        assert spec is not None and spec.origin is not None
        root = Path(spec.origin).parent
        for file in sorted({file for folder in folders for mdp in root.glob(folder) for file in mdp.rglob("*.py")}):
            name = ".".join((package, *file.relative_to(root).with_suffix("").parts))
            if not any(part in NO_TERMS for part in name.split(".")):
                yield name, ast.parse(file.read_bytes())


def installed_terms() -> set[tuple[str, str]]:
    """Return module and name of each public term: functions of an environment, and classes of terms."""
    classes, functions = [], set()
    for module, tree in modules():
        for node in tree.body:
            if isinstance(node, ast.ClassDef):
                classes.append((module, node.name, {ast.unparse(base).rpartition(".")[2] for base in node.bases}))
            elif isinstance(node, ast.FunctionDef) and node.args.args and node.args.args[0].arg == "env":
                functions.add((module, node.name))
    terms, known = set(), set(BASES)
    while found := {(module, name) for module, name, bases in classes if bases & known} - terms:
        terms |= found
        known |= {name for _, name in found}
    return {(module, name) for module, name in functions | terms if not name.startswith("_")}


def test_every_term_of_isaac_lab_has_a_row_and_every_row_a_term() -> None:
    sorted_terms = {(row["module"], row["term"]) for row in ROWS}
    assert len(sorted_terms) == len(ROWS)
    assert installed_terms() == sorted_terms
    assert importlib.metadata.version("isaaclab") == "3.0.0", "terms may have changed: read them again"


@pytest.mark.parametrize("state", HANDLINGS)
def test_every_kind_of_state_is_handled(state: str) -> None:
    found = [row for row in ROWS if row["state"] == state]
    assert found
    for row in found:
        assert row["handling"] in HANDLINGS[state], row
        assert row["kind"] in ("action", "command", "curriculum", "event", "observation", "reward", "termination")
    assert len(ROWS) == sum(row["state"] in HANDLINGS for row in ROWS)


def test_terms_of_all_environments_are_refused_by_name() -> None:
    from isaaclab.managers import EventTermCfg, ObservationTermCfg
    from isaaclab_tasks.core.lift.mdp.events import conditional_reset

    from ledger_lab.panels.checks import OF_ALL_ENVIRONMENTS, require_seedable
    from tests.fakes.held_out import task_cfg

    assert {f"{row['module']}:{row['term']}" for row in ROWS if row["handling"] == "refused"} == OF_ALL_ENVIRONMENTS

    def cfg() -> Any:
        return task_cfg("LedgerLab-Cartpole")

    by_class, by_text = cfg(), cfg()
    by_class.events.bank = EventTermCfg(func=conditional_reset, mode="reset")
    by_text.observations.policy.cloud = ObservationTermCfg(func="isaaclab_tasks.core.lift.mdp:object_point_cloud_b")
    for refused, complaint in (
        (by_class, r"events.bank .conditional_reset: all environments share its state"),
        (by_text, r"observations.policy.cloud .object_point_cloud_b: all environments share its state"),
    ):
        with pytest.raises(UserError, match=f"cannot be scored on a panel, because its {complaint}.*--no_eval"):
            require_seedable(refused)
