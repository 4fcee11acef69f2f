"""A real video, without a display or a GPU."""

from __future__ import annotations

from pathlib import Path

from tests.conftest import one_run_dir, script


def test_a_checkpoint_becomes_a_video(trained: Path) -> None:
    run_dir = one_run_dir(trained)
    finished = script("play", run_dir / "model_2.pt", "--video", "--video_length", "5", "--num_envs", "2",
                      "--device", "cpu", "--log_root", trained)  # fmt: skip
    assert finished.returncode == 0, finished.stdout + finished.stderr
    video = run_dir / "videos" / "play" / "model_2.mp4"
    assert str(video) in finished.stdout
    import imageio

    frames = [frame for frame in imageio.get_reader(video)]
    assert len(frames) == 5
    assert frames[0].std() > 10, "the picture is empty"
