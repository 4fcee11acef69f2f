"""The figures of scaling studies hold each run once, say which missed the target, and keep foreign text as text."""

from __future__ import annotations

import re
import sys
from collections import Counter
from dataclasses import replace
from itertools import product
from pathlib import Path
from xml.etree import ElementTree

import pytest

from ledger_lab.cli.report import build_report
from ledger_lab.errors import UserError
from ledger_lab.ledger import read_ledger
from ledger_lab.reports import summarize_run
from ledger_lab.reports.page.model import ScalingPart
from ledger_lab.studies.scaling import figures as drawn
from ledger_lab.studies.scaling.drawing import Drawing, save_drawings
from ledger_lab.studies.scaling.figures import draw_ledger, draw_studies, scaling_part
from ledger_lab.studies.scaling.points import ScaledRun, find_studies
from tests.fakes.ledgers import write_run
from tests.fakes.scaled import write_scaled
from tests.fakes.scaling_studies import noisy_run, weak_and_strong

SVG = "{http://www.w3.org/2000/svg}"
HOSTILE = "$\\frac{$ --> ]]> </title></svg><script>alert(1)</script> & \x1b[2J \x00 ../../\u202e"


@pytest.fixture(scope="module")
def runs() -> list[ScaledRun]:
    return weak_and_strong(sizes=(1, 2, 4), seeds=2)


@pytest.fixture(scope="module")
def drawings(runs: list[ScaledRun]) -> dict[str, Drawing]:
    return {drawing.name: drawing for drawing in draw_studies(find_studies(runs))}


@pytest.fixture(scope="module")
def pictures(drawings: dict[str, Drawing]) -> dict[str, ElementTree.Element]:
    return {name: ElementTree.fromstring(drawing.render("svg")) for name, drawing in drawings.items()}


def marks(picture: ElementTree.Element) -> Counter[str]:
    """Return how often each mark of a run is in a picture."""
    ids = [each.get("id", "") for each in picture.iter(f"{SVG}g")]
    return Counter(each for each in ids if each.startswith(("run-", "missed-")))


def texts(picture: ElementTree.Element) -> str:
    return "\n".join("".join(each.itertext()) for each in picture.iter(f"{SVG}text"))


def test_all_sizes_together_hold_each_run_once(runs: list[ScaledRun], pictures: dict[str, ElementTree.Element]) -> None:
    expected = {f"{'run' if run.reached else 'missed'}-{run.run_id}": 1 for run in runs}
    assert marks(pictures["ledgerlab-ant-cost-against-time"]) == expected


def test_a_run_that_missed_the_target_is_hollow(pictures: dict[str, ElementTree.Element]) -> None:
    picture = pictures["ledgerlab-ant-rsl-rl-weak"]
    looks = {}
    for each in picture.iter(f"{SVG}g"):
        kind = each.get("id", "").partition("-")[0]
        if kind in ("run", "missed"):
            (mark,) = each.iter(f"{SVG}use")
            looks[kind] = mark.get("style", "")
    assert "fill: #ffffff" in looks["missed"]
    assert "fill: #0072b2" in looks["run"]
    assert "target not reached: larger than shown" in texts(picture)


def test_the_same_figure_gives_the_same_files_without_a_date(drawings: dict[str, Drawing], tmp_path: Path) -> None:
    drawing = drawings["ledgerlab-ant-rsl-rl-weak"]
    files_of = [save_drawings(tmp_path / folder, [drawing]) for folder in "ab"]
    for first, second in zip(*files_of, strict=True):
        assert first.read_bytes() == second.read_bytes()
    svg, png = (path.read_bytes() for path in files_of[0])
    assert b"<dc:date>" not in svg
    assert png.startswith(b"\x89PNG")
    assert [path.name for path in (tmp_path / "a").iterdir() if path.suffix not in (".svg", ".png")] == []


def test_hostile_names_stay_text(tmp_path: Path) -> None:
    names = {"task": HOSTILE, "rl_library": HOSTILE, "instance": HOSTILE, "panel": HOSTILE, "agent": HOSTILE}
    runs = [
        noisy_run(size, 64, seed, run_id=f"{HOSTILE}{size}{seed}", hardware={"accelerator": HOSTILE}, **names)
        for size, seed in product((1, 2), (1, 2))
    ]
    drawings = draw_studies(find_studies(runs))
    written = save_drawings(tmp_path / "figures", drawings, ["svg"])
    assert {path.parent for path in written} == {tmp_path / "figures"}
    assert all(re.fullmatch(r"[a-z0-9-]+\.svg", path.name) for path in written)
    assert len(set(written)) == len(written) == 2
    for path in written:
        picture = ElementTree.parse(path).getroot()
        tags = {each.tag.removeprefix(SVG) for each in picture.iter()}
        assert not tags & {"script", "a", "image", "foreignObject"}
        assert "$\\frac{$ --> ]]> </title></svg><script>" in texts(picture)
        assert not re.search(r"[\x00-\x08\x1b\u202e]", path.read_text(encoding="utf-8"))


def test_runs_without_price_rate_or_target_leave_their_figures_out() -> None:
    runs = [noisy_run(n, 8, 1, reached=False, billable_usd=None, env_steps_per_s=None) for n in (1, 2)]
    (drawing,) = draw_studies(find_studies(runs))
    assert drawing.name == "ledgerlab-ant-rsl-rl-weak"
    ElementTree.fromstring(drawing.render("svg"))
    assert draw_studies(find_studies(runs[:1])) == []


def test_runs_without_price_are_counted_and_the_others_of_their_size_drawn() -> None:
    runs = [noisy_run(n, 8, s) for n in (1, 2) for s in (1, 2, 3)]
    runs[0] = replace(runs[0], cost_to_target_usd=None)
    money = draw_studies(find_studies(runs))[0]
    assert money.notes == ("not drawn: 1 of the runs, because they have no price",)
    picture = ElementTree.fromstring(money.render("svg"))
    assert marks(picture) == {f"run-{run.run_id}": 1 for run in runs[1:]}
    assert "1 × 8" in texts(picture)


def test_what_cannot_be_written_or_drawn_is_told_in_one_line(
    drawings: dict[str, Drawing], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    drawing = drawings["ledgerlab-ant-rsl-rl-weak"]
    (tmp_path / "file").touch()
    with pytest.raises(UserError, match="cannot write to .*file: File exists"):
        save_drawings(tmp_path / "file", [drawing])
    (tmp_path / f"{drawing.name}.svg").mkdir()
    with pytest.raises(UserError, match="cannot write .*weak.svg: Is a directory"):
        save_drawings(tmp_path, [drawing])
    assert sorted(path.name for path in tmp_path.iterdir()) == ["file", f"{drawing.name}.svg"]
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(UserError, match=re.escape("pip install 'ledger_lab[figures]'")):
        save_drawings(tmp_path / "new", [drawing])
    assert not (tmp_path / "new").exists()


def test_the_program_writes_and_lists_the_figures(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for processes in (1, 2):
        write_scaled(tmp_path / "logs", f"r{processes}", processes, 64, rate=1000.0, iterations=20)
    asked = ["scaling", "--log_root", str(tmp_path / "logs"), "--figures"]
    assert build_report([*asked, str(tmp_path / "new" / "figures")]) == 0
    names = ["t-cost-against-time", "t-rsl-rl-weak"]
    written = {path.name for path in (tmp_path / "new" / "figures").iterdir()}
    assert written == {f"{name}.{kind}" for name in names for kind in ("svg", "png")}
    told = capsys.readouterr().out
    assert all(name in told for name in written)
    assert "not fitted: Gustafson's law needs 3 sizes, and there are 2" in told
    (tmp_path / "file").touch()
    with pytest.raises(UserError, match="--figures .*file: it is no folder: name a folder"):
        build_report([*asked, str(tmp_path / "file")])
    with pytest.raises(UserError, match="no figure: .* several numbers of processes"):
        build_report([*asked, str(tmp_path / "none"), "r1"])
    assert not (tmp_path / "none").exists()
    with pytest.raises(UserError, match="cannot be used"):
        build_report([*asked, str(tmp_path), "--json", "-"])


def test_a_page_has_a_bounded_number_of_pictures_of_runs_for_the_same_target(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for task, processes in product("AB", (1, 2)):
        write_scaled(tmp_path, f"{task}{processes}", processes, 64, rate=1000.0, iterations=5, task=task)
    write_run(tmp_path, "other", num_envs=20, target_success=0.5)
    runs = read_ledger(tmp_path).runs
    summaries = [summarize_run(run) for run in runs]
    alone = [place for place, run in enumerate(runs) if run.run_id in ("A1", "other")]
    assert draw_ledger([runs[place] for place in alone], [summaries[place] for place in alone]) == []
    monkeypatch.setattr(drawn, "MOST_PICTURES", 3)
    part = scaling_part(runs, summaries, None)
    assert (len(part.pictures), part.left_out) == (3, 1)
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    part = scaling_part(runs, summaries, None)
    assert (part.pictures, part.missing_package) == ((), True)
    assert scaling_part(runs[:1], summaries[:1], None) == ScalingPart()
