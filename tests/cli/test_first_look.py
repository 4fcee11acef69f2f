"""A request that can't be carried out is refused before torch or Isaac Lab is imported."""

from __future__ import annotations

import re
from importlib.util import find_spec
from pathlib import Path

import gymnasium as gym
import pytest

from ledger_lab.cli.first_look import first_look
from ledger_lab.reports.terminal.request import HABITS, flag_names
from ledger_lab.tasks.registry import STOCK_TASKS, registered_tasks, task_package
from ledger_lab.training.request import TrainRequest
from ledger_lab.training.requested import stock_tasks
from tests.conftest import answers_without
from tests.fakes.ledgers import write_run
from tests.warm import HEAVY

REFUSED: list[tuple[str, list[str], str]] = [
    ("train", ["--nonsense"], "unknown argument '--nonsense': see --help_all"),
    ("train", ["--num-envs", "64"], "unknown argument '--num-envs': did you mean --num_envs?"),
    ("train", ["--video"], "unknown argument '--video': scripts/play.py RUN --video films a policy of a run"),
    ("train", ["--load_run", "aa"], "unknown argument '--load_run': train.py takes --resume RUN"),
    ("train", ["--no-stop_at_target"], "unknown argument '--no-stop_at_target': did you mean --no_stop_at_target?"),
    ("train", ["--wandb-project-name", "p"], "log_run.py RUN --to wandb --project NAME"),
    ("train", ["--run_name=a"], "unknown argument '--run_name': each run has an id, and --cohort NAME names a group"),
    ("play", ["--checkpoint", "aa"], "'--checkpoint': name the checkpoint file, or its run, without a flag"),
    ("train", ["LedgerLab-Ant"], "unknown argument 'LedgerLab-Ant': --task names a task"),
    ("train", ["--no_eval=0"], "argument --no_eval takes no value, and '0' was given; see --help_all"),
    ("train", ["--"], "unknown argument '--': see --help_all"),
    ("train", ["--timing", "slow"], "(choose from 'host', 'events', 'synchronized'); see --help_all"),
    ("train", ["--stop_on", "slow"], "no such event: did you mean 'slowdown'? (--help_all explains them)"),
    ("train", ["--task", "Absent"], "(scripts/list_envs.py --all lists them)"),
    ("evaluate", ["aa", "--load_run", "aa"], "other programs RUN alone"),
    ("report", ["--headless"], "unknown argument '--headless': leave it out, because no window opens"),
    ("report", ["--logger", "wandb"], "unknown argument '--logger': scripts/train.py --logger NAME and"),
    ("doctor", ["--log-root", "x"], "unknown argument '--log-root': did you mean --log_root?"),
    ("train", ["agnt.seed=1"], "override 'agnt.seed=1' matches nothing: did you mean 'agent'?"),
    (
        "train",
        ["--num_envs", "many"],
        "argument --num_envs: 'many' is not a whole number of at most 64 bits; see --help",
    ),
    ("train", ["--num_envs", "0"], "--num_envs 0: must be at least 1"),
    ("train", ["--target", "1.5"], "--target 1.5: must be above 0 and at most 1"),
    ("train", ["--task", "LedgerLab-Cartpoel"], "did you mean 'LedgerLab-Cartpole'"),
    ("train", ["--task", "Isaac-Cartpoel"], "did you mean 'Isaac-Cartpole'"),
    ("train", ["--rl_library", "rsl"], "unknown library 'rsl'"),
    ("train", ["--panel", "absent.toml"], "cannot read panel file absent.toml: No such file or directory"),
    ("train", ["--panel", "cartpole_v2"], "unknown panel 'cartpole_v2': did you mean 'cartpole_v1'"),
    ("train", ["--instance", "h900"], "--instance: unknown instance 'h900'"),
    ("train", ["--prices", "absent.toml"], "absent.toml: cannot read the price file"),
    ("train", ["--logger", "tensorbord"], "no logger 'tensorbord'; did you mean 'tensorboard'?"),
    ("train", ["--resume", "bb"], "no checkpoint, run directory or run id 'bb' (run ids under logs: known: aa)"),
    ("train", ["--checkpoint", "bb"], "no checkpoint, run directory or run id 'bb'"),
    ("train", ["--nproc", "2", "--num_envs", "0"], "--num_envs 0: must be at least 1"),
    ("evaluate", ["bb"], "no checkpoint, run directory or run id 'bb'"),
    ("evaluate", [], "name a run or a checkpoint, or use --task X --pretrained"),
    ("evaluate", ["aa", "--versus", "bb"], "no checkpoint, run directory or run id 'bb'"),
    ("evaluate", ["aa", "--nonsense"], "unknown argument '--nonsense': see --help"),
    ("play", ["--pretrained"], "nothing to see: record a video with --video, or open a viewer with"),
    ("play", ["--video", "bb"], "no checkpoint, run directory or run id 'bb'"),
    ("export_policy", ["--pretrained", "--task", "LedgerLab-Cartpoel"], "no pretrained policy of LedgerLab-Cart"),
    ("new_panel", [], "the following arguments are required: --task; see --help"),
    ("new_panel", ["--task", "Isaac-Cartpoel"], "unknown task 'Isaac-Cartpoel'"),
    ("list_envs", ["--nonsense"], "unknown argument '--nonsense': see --help"),
    ("profile_run", ["--iterations", "0"], "--iterations 0: must be at least 1"),
]
"""Commands with arguments, and what they say."""


def test_a_refusal_does_not_wait_for_torch_or_isaac_lab(tmp_path: Path) -> None:
    write_run(tmp_path / "logs", "aa")
    asked = [[name, *arguments] for name, arguments, _ in REFUSED]
    answers = answers_without((*HEAVY, "numpy"), *asked, cwd=tmp_path)
    for (_, _, said), (out, error) in zip(REFUSED, answers, strict=True):
        assert out == "" and error is not None and said in error and "\n" not in error


@pytest.mark.parametrize(
    "arguments",
    [
        [],
        ["--task", "Isaac-Ant", "--rl_library", "skrl", "physics=newton_mjwarp", "env.sim.dt=0.01", "--viz", "kit"],
        ["--checkpoint", "LedgerLab-Ant", "--panel", "ant_v1", "--target", "0.5", "--usd_per_hour", "2"],
        ["--resume", "aa", "--task", "LedgerLab-Cartpoel"],
        ["--resume", "LOGS/r_aa"],
        ["--resume", "bb", "--on", "slurm"],  # a run in the ledger of the cluster
    ],
)
def test_requests_that_may_be_valid_are_not_refused_early(
    tmp_path: Path, arguments: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    run_dir = write_run(tmp_path / "logs", "aa")
    monkeypatch.chdir(tmp_path)
    arguments = [str(run_dir) if each == "LOGS/r_aa" else each for each in arguments]
    first_look(TrainRequest, arguments)


def test_early_checks_are_skipped_in_launched_processes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WORLD_SIZE", "2")
    first_look(TrainRequest, ["--num_envs", "0"])


def test_task_ids_found_in_isaac_labs_source_equal_its_registered_tasks() -> None:
    registered = {task for task in registered_tasks() if task_package(task) == STOCK_TASKS}
    assert registered <= stock_tasks()
    assert stock_tasks() <= set(gym.registry)


def test_each_flag_of_isaac_labs_own_commands_has_an_answer() -> None:
    """Left out are flags that its commands hand to one another, and one that changes how sensors are saved."""
    folder = Path(find_spec("isaaclab_rl").submodule_search_locations[0]) / "entrypoints"
    files = [folder / "common.py", *folder.glob("backends/*_rsl_rl.py"), *folder.glob("backends/*_rl_games.py")]
    texts = [path.read_text() for path in (*files, *folder.glob("backends/*_skrl.py")) if "export" not in path.name]
    theirs = {flag.replace("-", "_") for text in texts for flag in re.findall(r"\"--([a-z][\w-]+)\"", text)}
    theirs -= {"frontend", "ray_proc_id", "run_timestamp", "train_env_cfg"}
    theirs = {each for each in theirs if not each.startswith("capture_env_sensors")}
    assert len(theirs) > 20 and theirs <= {*HABITS, *flag_names(TrainRequest)}


def test_headless_is_accepted_with_a_note(capsys: pytest.CaptureFixture[str]) -> None:
    first_look(TrainRequest, ["--headless"])
    assert capsys.readouterr().err == "note: --headless: leave it out, because no window opens without --viz NAME\n"
