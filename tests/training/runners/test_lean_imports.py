"""The movie library is imported only when a video is recorded."""

from __future__ import annotations

import subprocess
import sys

import pytest

PROGRAM = """
import sys
from types import SimpleNamespace
from ledger_lab.training.runners import lean_imports
lean_imports.import_environment(SimpleNamespace(video_recorders=[], sim=SimpleNamespace(physics=None)))
import isaaclab.envs.manager_based_env
print("moviepy" in sys.modules, "matplotlib" in sys.modules)
recorder = lean_imports.import_video_recorder()
print(recorder.ImageSequenceClip.__module__, "moviepy.editor" in sys.modules)
"""


@pytest.mark.thorough
def test_the_movie_library_is_imported_for_videos_alone() -> None:
    finished = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True, check=False)
    assert finished.returncode == 0, finished.stderr
    lines = [line for line in finished.stdout.splitlines() if line.startswith(("False", "True", "moviepy"))]
    assert lines == ["False False", "moviepy.video.io.ImageSequenceClip True"]
