"""Panel files, their identity, and the seeds of their episodes."""

from __future__ import annotations

from pathlib import Path

import pytest

from ledger_lab.errors import UserError
from ledger_lab.panels import (
    PanelIdentity,
    differing_fields,
    episode_stream,
    find_panels,
    load_panel,
    reaches_target,
    wilson_interval,
)
from ledger_lab.panels.seeds import TRAINING_SEED_LIMIT

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
version = 1
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
        assert load_panel(name).episodes


@pytest.mark.parametrize(
    ("old", "new", "complaint"),
    [
        ("[success]", "[succes]", "unknown field 'succes': did you mean 'success'"),
        ("count = 4", "cuont = 4", "unknown field 'seeds.cuont': did you mean 'count'"),
        ("hold_s = 1.0", "tolerance = 1.0", "unknown field 'success.tolerance'"),
        ("count = 4", "", "field 'seeds.count' is missing"),
        ("count = 4", "count = 0", "seeds.count at least 1"),
        ("count = 4", 'count = "4"', "field 'seeds.count' has the wrong type"),
        ("version = 1", "version = true", "field 'success.version' has the wrong type"),
        ("target_success = 0.9", "target_success = 90", "target_success must lie"),
        ("hold_s = 1.0", "hold_s = 9.0", "hold_s must lie"),
        ('"m:f"', '"m.f"', "module:function"),
        ('task = "T"', "task = ", "not valid TOML"),
    ],
)
def test_a_wrong_panel_file_is_refused_in_one_line(tmp_path: Path, old: str, new: str, complaint: str) -> None:
    with pytest.raises(UserError, match=complaint.replace("(", r"\(")) as raised:
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
            ("version = 1", "version = 2"),
        )
    ]
    others.append(PanelIdentity.of(panel, {**simulation, "packages": {"newton": "1.7"}}).id)
    assert len({identity.id, *others}) == 7


def test_a_refusal_names_the_fields_that_differ() -> None:
    left = {"physics": {"engine": "newton", "dt": 1}, "seeds": [1]}
    right = {"physics": {"engine": "ovphysx", "dt": 1}, "seeds": [1], "new": 3}
    assert differing_fields(left, right) == ["new: None != 3", "physics.engine: 'newton' != 'ovphysx'"]


def test_episode_streams_are_distinct_and_never_training_seeds() -> None:
    streams = {
        episode_stream(task, cell, seed) for task in ("A", "B") for cell in ("nominal", "heavy") for seed in range(500)
    }
    assert len(streams) == 2000
    assert min(streams) > TRAINING_SEED_LIMIT
    assert max(streams) < 2**63
    assert min(stream & 0xFFFFFFFF for stream in streams) >= TRAINING_SEED_LIMIT, "torch's CPU generator sees 32 bits"
    assert episode_stream("A", "nominal", 7) == episode_stream("A", "nominal", 7)


def test_wilson_interval_agrees_with_scipy() -> None:
    from scipy.stats import binomtest

    for successes, episodes in ((0, 5), (231, 256), (253, 256), (256, 256), (1, 1)):
        expected = binomtest(successes, episodes).proportion_ci(0.95, method="wilson")
        assert wilson_interval(successes, episodes) == pytest.approx((expected.low, expected.high), abs=1e-12)
    with pytest.raises(ValueError, match="3 successes of 2"):
        wilson_interval(3, 2)


def test_a_target_is_reached_by_the_share_itself() -> None:
    assert not reaches_target(230, 256, 0.9)
    assert reaches_target(231, 256, 0.9)
    assert reaches_target(55, 100, 0.55)
