"""The published rates, and what can be read from them."""

from __future__ import annotations

from pathlib import Path

import pytest

from ledger_lab.studies.scaling import Kind, RateFit
from ledger_lab.studies.scaling.published import read_published


def test_the_published_rates_are_analysed_like_a_study() -> None:
    published = read_published()
    cartpole, ant = published.studies
    assert (cartpole.kind, ant.kind) == (Kind.STRONG, Kind.WEAK)
    amdahl, gustafson = cartpole.rate_law, ant.rate_law
    assert isinstance(amdahl, RateFit) and isinstance(gustafson, RateFit)
    assert amdahl.contention.value == pytest.approx(0.175, abs=0.001)
    assert amdahl.contention.interval is None, "one figure per size has no spread"
    assert 0 < gustafson.contention.value < 1 and gustafson.largest_deviation > 0.1, "four GPUs were nearly linear"
    assert published.fewest_envs == 1024
    assert "no address" in published.source


def test_each_iteration_of_the_strong_scaling_has_the_same_samples() -> None:
    (cartpole, _) = read_published().studies
    samples = [(point.fps_total or 0) * (point.epoch_s or 0) for point in cartpole.points]
    assert samples == pytest.approx([2**19] * 4, rel=0.005)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (("processes = 2,", "processes = 1,"), "once"),
        (('"weak"', '"wide"'), "kind"),
        (("= 147413.0", '= "a"'), "float"),
    ],
)
def test_a_wrong_file_is_refused(tmp_path: Path, change: tuple[str, str], said: str) -> None:
    from ledger_lab.paths import config_root

    text = (config_root() / "published" / "l40.toml").read_text()
    (tmp_path / "wrong.toml").write_text(text.replace(*change))
    with pytest.raises(ValueError, match=said):
        read_published(tmp_path / "wrong.toml")
