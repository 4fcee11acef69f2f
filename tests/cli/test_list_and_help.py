"""``list_envs.py``, and the help of every program."""

from __future__ import annotations

import argparse
import io
import re
from pathlib import Path

import pytest
from isaaclab.app import add_launcher_args

from ledger_lab.cli.list_tasks import ListRequest, list_tasks, print_table
from ledger_lab.cli.programs import known_commands
from ledger_lab.ledger import read_ledger
from ledger_lab.panels import load_panel
from ledger_lab.reports.terminal.console import PlainConsole
from ledger_lab.reports.terminal.request import LAUNCHER_FLAGS
from ledger_lab.tasks.pack import TASKS
from ledger_lab.tasks.pretrained import ROOT
from tests.conftest import answers_without, script
from tests.warm import HEAVY
from tools.records import times_to_target

REPOSITORY = Path(__file__).parents[2]
README = (REPOSITORY / "README.md").read_text(encoding="utf-8")


def listed(*arguments: str) -> list[str]:
    """Return the lines of the list, printed where torch and Isaac Lab are missing."""
    ((out, error),) = answers_without(HEAVY, ["list_envs", *arguments])
    assert error is None
    return out.splitlines()


def test_tasks_are_listed_from_files_alone_with_the_times_that_are_published_everywhere() -> None:
    lines = listed()
    assert max(map(len, lines)) <= 100
    for task, own in TASKS.items():
        (row,) = [line for line in lines if line.startswith(f"{task} ")]
        panel = load_panel(own.panel)
        time = times_to_target(REPOSITORY / "records")[task]
        assert row.split("  ")[0] == task
        assert " ".join(row.split()) == f"{task} {time} {panel.name} 90 % {len(panel.episodes)}"
        (readme,) = [line for line in README.splitlines() if line.startswith(f"| `{task}` |")]
        assert all(word in readme for word in time.split(" + ")), f"README says another time than {time}"
    assert listed("--keyword", "reach")[1].startswith("LedgerLab-Reach-Franka ")
    assert "no task's id contains 'absent'" in str(answers_without((), ["list_envs", "--keyword", "absent"]))


def test_the_long_list_shows_engines_sizes_policies_and_panel_ids() -> None:
    finished = script("list_envs", "--long", "--keyword", "Cartpole")
    assert finished.returncode == 0, finished.stderr
    assert max(map(len, finished.stdout.splitlines())) < 100, "a pipe has no end, and gets no blanks"
    task, *rows = [line.split() for line in finished.stdout.splitlines()]
    assert task == ["LedgerLab-Cartpole"]
    (run,) = read_ledger(ROOT / "LedgerLab-Cartpole").runs
    shown = [(name, " ".join(words)) for name, *words in rows]
    assert ("libraries", "rsl_rl, rl_games, skrl") in shown
    assert {("environments", "256"), ("observations", "4"), ("actions", "1")} <= {*shown}
    assert any("newton_mjwarp, newton_mujoco, ovphysx" in words for _, words in shown)
    assert any(name == "pretrained" and words.endswith(str(run.declared.physics)) for name, words in shown)
    panels = [words for name, words in shown if name == "panel"]
    assert re.fullmatch(r"cartpole_v1: 90 % of 256, p1-\w{8}…", panels[0])
    assert panels[1].startswith("cartpole_robust_v1: ")


def test_packages_with_tasks_are_named_also_one_without_a_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for package, metadata in (("theirs", "Name: theirs\n"), ("nameless", None)):
        folder = tmp_path / f"{package}-1.dist-info"
        folder.mkdir()
        (folder / "entry_points.txt").write_text(f"[isaaclab.tasks]\n{package} = {package}\n")
        if metadata is not None:
            (folder / "METADATA").write_text(metadata)
    monkeypatch.syspath_prepend(tmp_path)
    assert list_tasks(["--keyword", "Ant"]) == 0
    assert capsys.readouterr().out.splitlines()[-1] == "--long also lists the tasks of nameless, theirs"


def test_a_panel_that_cannot_be_read_is_named_and_the_other_tasks_are_listed(tmp_path: Path) -> None:
    panel, file = tmp_path / "theirs.toml", io.StringIO()
    panel.write_text("task = [")
    print_table({"Theirs": str(panel), "LedgerLab-Ant": "ant_v1"}, ListRequest.parse([]), PlainConsole(file, 200))
    _, theirs, ours, _, warning = file.getvalue().splitlines()
    assert theirs.split() == ["Theirs", *"––––"] and " ant_v1 " in ours
    assert warning.startswith("warning:") and str(panel) in warning


WORDS = {
    "evaluate": ["RUN_OR_CHECKPOINT", "--panel"],
    "export_policy": ["contract.json", "--tolerance"],
    "play": ["--video_length", "--pretrained"],
    "profile_run": ["--trace", "--nsys", "--iterations"],
    "report": ["--json", "--details", "--prices"],
    "search": ["--at_once", "sealed seeds", "search.py ant_recipe --status"],
    "train": ["--num_envs", "physics=ovphysx", "more flags"],
}
"""What the help of a program explains."""


def test_help_explains_every_program_without_waiting_for_torch_or_isaac_lab() -> None:
    names = list(known_commands())
    for name, (out, error) in zip(names, answers_without(HEAVY, *([name, "--help"] for name in names)), strict=True):
        assert error is None and f"usage: {name}.py" in out
        assert all(word in out for word in WORDS.get(name, []))


def test_the_help_shows_the_flags_of_every_day_and_help_all_the_rest() -> None:
    asked = [["train", flag] for flag in ("--help", "--help_all")] + [["report", "--help"]]
    (short, _), (whole, _), (report, _) = answers_without(HEAVY, *asked)
    rare = ("--eval_every", "--cohort_size", "--livestream", "reward_hacking:", "physics=NAME")
    assert len(re.findall(r"^  --", short, re.MULTILINE)) == 13, "a dozen, and --help_all"
    assert not [word for word in rare if word in short] and all(word in whole for word in rare)
    assert "--help_all" not in report, "it has nothing to add"


def test_the_flags_of_isaac_labs_launcher_are_read_as_isaac_lab_reads_them() -> None:
    parser = argparse.ArgumentParser()
    add_launcher_args(parser)
    theirs = {flag: action for action in parser._actions[1:] for flag in action.option_strings}
    ours = {flag: options for flags, options, _ in LAUNCHER_FLAGS for flag in flags}
    assert ours.keys() == theirs.keys()
    for flag, action in theirs.items():
        is_switch, kind = "action" in ours[flag], ours[flag].get("type", str)
        assert is_switch == (action.nargs == 0)
        if not is_switch and flag not in ("--visualizer", "--viz"):
            assert (kind, {*ours[flag].get("choices", ())}) == (action.type, {*(action.choices or ())})
