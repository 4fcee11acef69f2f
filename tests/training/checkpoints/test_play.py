"""A real video of a trained policy, without a display or a GPU."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from ledger_lab.errors import UserError
from ledger_lab.ledger import read_ledger
from tests.conftest import one_run_dir, script
from tests.training.evaluation.test_evaluate_bad_input import retold


def test_a_checkpoint_becomes_a_video(trained: Path, tmp_path: Path) -> None:
    run_dir = one_run_dir(trained)
    decoy, folder = tmp_path / "decoy", run_dir / "videos" / "play"
    decoy.write_text("precious")
    folder.mkdir(parents=True)
    for name in ("model_2_0000.mp4", "model_2.mp4.partial"):
        (folder / name).symlink_to(decoy)
    finished = script("play", run_dir / "model_2.pt", "--video", "--video_length", "5", "--num_envs", "2",
                      "--device", "cpu", "--log_root", trained)  # fmt: skip
    assert finished.returncode == 0, finished.stdout + finished.stderr
    video = run_dir / "videos" / "play" / "model_2.mp4"
    assert str(video) in finished.stdout
    import imageio.v3

    frames = [frame for frame in imageio.get_reader(video)]
    assert len(frames) == 5
    assert frames[0].std() > 10, "the picture is empty"
    assert decoy.read_text() == "precious", "a link in a received run is not followed"
    assert {path.name for path in folder.iterdir()} == {"model_2.mp4", "model_2_0000.mp4"}


def test_a_linked_folder_in_a_received_run_is_refused(trained: Path, tmp_path: Path) -> None:
    from ledger_lab.training.checkpoints.play import play_run

    run_dir = tmp_path / "run"
    shutil.copytree(one_run_dir(trained), run_dir, ignore=shutil.ignore_patterns("videos"))
    (tmp_path / "elsewhere").mkdir()
    (run_dir / "videos").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(UserError, match="run/videos is a link or a file, and must be a folder: remove it"):
        play_run([str(run_dir / "model_2.pt"), "--video", "--device", "cpu", "--log_root", str(tmp_path)])
    assert not list((tmp_path / "elsewhere").iterdir())


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (
            ["agent.actor.activation=relu"],
            r"'agent.actor.activation=relu': leave it out, because a policy is played as it was trained",
        ),
        (["--num_envs", "0"], r"--num_envs and --video_length must be at least 1"),
        (["--seed", "-2"], r"--seed -2: must lie between 0 and 4294967295"),
    ],
)
def test_an_impossible_play_request_gives_an_error_of_one_line(arguments: list[str], complaint: str) -> None:
    from ledger_lab.training.checkpoints.play import play_run

    with pytest.raises(UserError, match=complaint) as refused:
        play_run(["nothing", "--video", *arguments])
    assert "\n" not in str(refused.value)


def test_a_window_without_a_display_is_refused_before_anything_is_simulated(monkeypatch: pytest.MonkeyPatch) -> None:
    from ledger_lab.training.checkpoints.play import play_run

    for name in ("DISPLAY", "WAYLAND_DISPLAY"):
        monkeypatch.delenv(name, raising=False)
    with pytest.raises(UserError, match=r"there is no display: add --video, or set DISPLAY"):
        play_run(["nothing", "--viz", "newton_gl"])


def test_a_policy_that_differs_from_the_trained_policy_is_not_played(trained: Path, tmp_path: Path) -> None:
    from ledger_lab.training.checkpoints.play import play_run

    (run,) = read_ledger(trained).runs
    other = {**run.declared.config_sha256, "agent": "0" * 64}  # another activation, say, whose weights fit as well
    drifted = retold(trained, tmp_path, "drifted0", config_sha256=other)
    with pytest.raises(UserError, match=r"has changed since run drifted0 was trained"):
        play_run([str(drifted), "--video", "--device", "cpu"])
    fields = run.declared.panel_fields
    delayed = {**fields, "time_step": {**fields["time_step"], "decimation": 3}}
    drifted = retold(trained, tmp_path, "drifted1", panel_fields=delayed)
    with pytest.raises(
        UserError, match=r"run drifted1 was trained, so .* something else: time_step.decimation: 2 != 3"
    ):
        play_run([str(drifted), "--video", "--device", "cpu"])


def test_play_mode_replaces_settings_of_the_training() -> None:
    from ledger_lab.tasks.registry import registered_tasks
    from ledger_lab.training.runners.configs import resolve_configs

    registered_tasks()
    lift, _ = resolve_configs("LedgerLab-Lift-Cube-Franka", "rsl_rl", [], play_mode=True)
    assert lift.curriculum.begin_at_object.params["share"] == 0.0
    rough, _ = resolve_configs("LedgerLab-Velocity-Rough-AnymalC", "rsl_rl", [], play_mode=True)
    assert rough.events.push_robot.params["velocity_range"] == {}
    assert not rough.observations.policy.enable_corruption
    noisy = ["env.observations.policy.enable_corruption=true", "env.events.push_robot.interval_range_s=[1.0,2.0]"]
    asked, _ = resolve_configs("LedgerLab-Velocity-Rough-AnymalC", "rsl_rl", noisy, play_mode=True)
    assert asked.observations.policy.enable_corruption, "what is asked for stands"
    trained, _ = resolve_configs("LedgerLab-Velocity-Rough-AnymalC", "rsl_rl", [])
    assert trained.observations.policy.enable_corruption
    assert trained.events.push_robot.params["velocity_range"]
