"""Panel files, their identity, and the seeds of their episodes."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from ledger_lab.errors import UserError
from ledger_lab.panels import PanelIdentity, differing_fields, find_panels, load_panel
from ledger_lab.panels.panel import PANEL_SEED_LIMIT, comparison_seeds, proof_seeds, stream_key
from ledger_lab.panels.perturbations import ActionDelay, Mass

GOOD = """
task = "T"
description = "d"
episode_length_s = 5.0
target_success = 0.9
[seeds]
first = 0
count = 4
[success]
function = "m:f"
hold_s = 1.0
"""


def panel_file(tmp_path: Path, text: str) -> str:
    path = tmp_path / "mine.toml"
    path.write_text(text)
    return str(path)


def test_a_panel_is_found_by_name_and_by_file(tmp_path: Path) -> None:
    by_name = load_panel("cartpole_v1")
    assert (by_name.name, by_name.source, len(by_name.episodes)) == ("cartpole_v1", "cartpole_v1", 256)
    by_file = load_panel(panel_file(tmp_path, GOOD))
    assert by_file.episodes == tuple(("nominal", seed) for seed in range(4))
    assert load_panel(by_file.source) == by_file


def test_every_panel_of_the_project_loads() -> None:
    assert find_panels()
    for name in find_panels():
        panel = load_panel(name)
        assert panel.episodes
        fields = PanelIdentity.of(panel, {}).fields
        assert fields == json.loads(json.dumps(fields)), "evaluate.py compares them with those that a journal holds"


@pytest.mark.parametrize(
    ("old", "new", "complaint"),
    [
        ("[success]", "[succes]", "unknown field `succes`"),
        ("count = 4", "cuont = 4", "unknown field `cuont` - at `$.seeds`"),
        ("hold_s = 1.0", "tolerance = 1.0", "unknown field `tolerance` - at `$.success`"),
        ("count = 4", "", "missing required field `count` - at `$.seeds`"),
        ("count = 4", "count = 0", "Expected `int` >= 1 - at `$.seeds.count`"),
        ("count = 4", "count = 9_000_000", "Expected `int` <= 1000000 - at `$.seeds.count`"),
        ("count = 4", 'count = "4"', "Expected `int`, got `str` - at `$.seeds.count`"),
        ("first = 0", "first = 4294967295", "seeds must lie below 4294967296"),
        ("target_success = 0.9", "target_success = 90", "Expected `float` <= 1.0 - at `$.target_success`"),
        ("hold_s = 1.0", "hold_s = 9.0", "success.hold_s must lie between 0 and episode_length_s"),
        ('"m:f"', '"m.f"', "module:function"),
        ("hold_s = 1.0", 'hold_s = 1.0\nearly_time_out = "judge"', "'judge' - at `$.success.early_time_out`"),
        ("episode_length_s = 5.0", "episode_length_s = inf", "numbers must be finite"),
        ('task = "T"', "task = ", "Invalid value (at line 2"),
    ],
)
def test_a_wrong_panel_file_is_refused_in_one_line(tmp_path: Path, old: str, new: str, complaint: str) -> None:
    with pytest.raises(UserError, match=re.escape(complaint)) as raised:
        load_panel(panel_file(tmp_path, GOOD.replace(old, new)))
    assert "\n" not in str(raised.value)
    assert "mine.toml" in str(raised.value)


def test_an_unknown_panel_is_refused_with_the_nearest_name() -> None:
    with pytest.raises(UserError, match="cartpole_v1"):
        load_panel("cartpol_v1")
    with pytest.raises(UserError, match="cannot read panel file"):
        load_panel("no/such/file.toml")


def test_an_identity_changes_with_every_field_and_with_nothing_else(tmp_path: Path) -> None:
    simulation = {"physics": {"engine": "newton/mjwarp"}, "packages": {"newton": "1.6.1"}}
    panel = load_panel(panel_file(tmp_path, GOOD))
    same = PanelIdentity.of(load_panel(panel_file(tmp_path, GOOD + "# a remark\n")), dict(reversed(simulation.items())))
    identity = PanelIdentity.of(panel, simulation)
    assert identity.id == same.id
    assert identity.id.startswith("p1-") and len(identity.id) == 3 + 64
    others = [
        PanelIdentity.of(load_panel(panel_file(tmp_path, GOOD.replace(old, new))), simulation).id
        for old, new in (
            ("first = 0", "first = 1"),
            ("5.0", "6.0"),
            ('"T"', '"U"'),
            ("m:f", "m:g"),
            ("hold_s = 1.0", 'hold_s = 1.0\nearly_time_out = "judged"'),
        )
    ]
    others.append(PanelIdentity.of(panel, {**simulation, "packages": {"newton": "1.7"}}).id)
    assert len({identity.id, *others}) == 7
    default = GOOD.replace("hold_s = 1.0", 'hold_s = 1.0\nearly_time_out = "failure"')
    assert PanelIdentity.of(load_panel(panel_file(tmp_path, default)), simulation).id == identity.id


def test_moving_code_of_ledger_lab_changes_no_identity_and_changing_it_does(tmp_path: Path) -> None:
    def identity(function: str, code: dict[str, str]) -> PanelIdentity:
        return PanelIdentity.of(load_panel(panel_file(tmp_path, GOOD.replace("m:f", function))), {"code": code})

    code = {"ledger_lab.tasks.old.success": "1", "ledger_lab.tasks.old.terms": "2", "acme.terms": "3"}
    before = identity("ledger_lab.tasks.old.success:upright", code)
    moved = {name.replace("old", "deep.new"): sha256 for name, sha256 in code.items()}
    assert identity("ledger_lab.tasks.deep.new.success:upright", moved) == before
    assert set(before.fields["code"]) == {"ledger_lab:success", "ledger_lab:terms", "acme.terms"}
    assert before.fields["success"]["function"] == "ledger_lab:upright"
    for other in ("ledger_lab.tasks.more.terms", "acme.more"):
        assert identity("ledger_lab.tasks.old.success:upright", {**code, other: "4"}).id != before.id
    assert identity("ledger_lab.tasks.old.success:upright", {**code, "acme.terms": "4"}).id != before.id
    assert identity("acme.success:upright", code).fields["success"]["function"] == "acme.success:upright"


def test_a_refusal_names_the_fields_that_differ() -> None:
    left = {"physics": {"engine": "newton", "dt": 1}, "seeds": [1]}
    right = {"physics": {"engine": "ovphysx", "dt": 1}, "seeds": [1], "new": 3}
    assert differing_fields(left, right) == ["new: None != 3", "physics.engine: 'newton' != 'ovphysx'"]


def test_every_stream_has_a_key_of_its_own() -> None:
    keys = {
        stream_key(purpose, task, seed, cell)
        for purpose in ("startup", "episode", "condition", "disturbance")
        for task in ("A", "B")
        for cell in ("nominal", "heavy")
        for seed in range(500)
    }
    assert len(keys) == 8000 and max(keys) < 2**64
    assert stream_key("episode", "A", 7) == stream_key("episode", "A", 7)


def test_a_proof_has_fresh_seeds_one_per_episode(tmp_path: Path) -> None:
    panel = load_panel(panel_file(tmp_path, GOOD + '[[cells]]\nname = "a"\n[[cells]]\nname = "b"\n'))
    assert len(panel.episodes) == 8 and len({seed for _, seed in panel.episodes}) == 4
    fresh = panel.proof("run", 1)
    assert [cell for cell, _ in fresh.episodes] == [cell for cell, _ in panel.episodes]
    assert len({seed for _, seed in fresh.episodes}) == 8, "episodes of a proof don't depend on each other"
    assert min(fresh.seeds) >= PANEL_SEED_LIMIT and max(fresh.seeds) < 2**53
    others = [proof_seeds("run", 2, 8), proof_seeds("other", 1, 8)]
    assert all(set(fresh.seeds).isdisjoint(seeds) for seeds in others)
    assert PanelIdentity.of(fresh, {}).id != PanelIdentity.of(panel, {}).id


def test_two_policies_are_compared_on_fresh_seeds_that_depend_on_both(tmp_path: Path) -> None:
    panel = load_panel(panel_file(tmp_path, GOOD + '[[cells]]\nname = "a"\n[[cells]]\nname = "b"\n'))
    drawn = panel.comparison("aa", "bb")
    assert drawn == panel.comparison("bb", "aa"), "the order makes no difference"
    assert [cell for cell, _ in drawn.episodes] == [cell for cell, _ in panel.episodes]
    assert len(set(drawn.seeds)) == 8 and min(drawn.seeds) >= PANEL_SEED_LIMIT and max(drawn.seeds) < 2**53
    others = [comparison_seeds("aa", "cc", 8), proof_seeds("aa", 1, 8), proof_seeds("aa/bb", 1, 8)]
    assert all(set(drawn.seeds).isdisjoint(seeds) for seeds in others)
    identity = PanelIdentity.of(panel, {"physics": "newton"})
    assert identity.with_fresh_seeds(drawn.seeds) == PanelIdentity.of(drawn, {"physics": "newton"})
    assert identity.with_fresh_seeds(drawn.seeds).id != identity.id


CELLS = """
[[cells]]
name = "nominal"
[[cells]]
name = "heavy"
mass = { bodies = "pole", scale = [1.2, 1.5] }
action_delay = { steps = 2 }
"""


def test_cells_are_read_with_their_perturbations(tmp_path: Path) -> None:
    panel = load_panel(panel_file(tmp_path, GOOD + CELLS))
    assert [cell for cell, _ in panel.episodes] == ["nominal"] * 4 + ["heavy"] * 4
    mass, delay = panel.cells[1].perturbations
    assert mass == Mass(asset="robot", bodies="pole", scale=(1.2, 1.5))
    assert delay == ActionDelay(steps=(2, 2))
    ids = {
        PanelIdentity.of(load_panel(panel_file(tmp_path, GOOD + text)), {}).id
        for text in ("", CELLS, CELLS.replace("1.5", "1.6"), CELLS.replace('"heavy"', '"heavier"'))
    }
    assert len(ids) == 4


@pytest.mark.parametrize(
    ("old", "new", "complaint"),
    [
        ("mass", "mas", "unknown perturbation 'mas': did you mean 'mass'"),
        ("bodies =", "body =", "mass: Object contains unknown field `body`"),
        (", scale = [1.2, 1.5]", "", "mass: Object missing required field `scale`"),
        ("[1.2, 1.5]", "[1.5, 1.2]", "mass: scale is .1.5, 1.2.: put the lower number first"),
        ("[1.2, 1.5]", "0", "mass: Expected `float` > 0.0 - at `..scale"),
        ("[1.2, 1.5]", "[true, 2]", "mass: Expected `float`, got `bool`"),
        ("steps = 2", "steps = 1.5", "action_delay: Expected `int`, got `float`"),
        ('name = "heavy"', 'name = "nominal"', "two cells have the name 'nominal'"),
        ('name = "heavy"', "", "give each cell a name"),
        ("action_delay = { steps = 2 }", "action_delay = 2", "action_delay must be a table"),
        (
            "action_delay = { steps = 2 }",
            "observation_noise = { std = { joint_pos = [0.01, 0.02] } }",
            "observation_noise: Expected `float`, got `array`",
        ),
    ],
)
def test_a_wrong_cell_is_refused_in_one_line(tmp_path: Path, old: str, new: str, complaint: str) -> None:
    with pytest.raises(UserError, match=complaint) as raised:
        load_panel(panel_file(tmp_path, GOOD + CELLS.replace(old, new)))
    assert "\n" not in str(raised.value) and "mine.toml" in str(raised.value)


def test_seeds_may_come_in_ranges_that_do_not_overlap(tmp_path: Path) -> None:
    ranges = "seeds = [{ first = 0, count = 4 }, { first = 10, count = 2 }]\n"
    text = ranges + GOOD.replace("[seeds]\nfirst = 0\ncount = 4\n", "")
    assert load_panel(panel_file(tmp_path, text)).seeds == (0, 1, 2, 3, 10, 11)
    with pytest.raises(UserError, match="the ranges of seeds overlap"):
        load_panel(panel_file(tmp_path, text.replace("first = 10", "first = 3")))
