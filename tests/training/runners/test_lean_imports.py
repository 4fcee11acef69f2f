"""What a training does not use is not imported, and works as usual when it is used after all."""

from __future__ import annotations

import subprocess
import sys
import textwrap
from pathlib import Path

import pytest


def _run(folder: Path, code: str) -> str:
    """Run code in a Python of its own, and return what it printed."""
    program = folder / "program.py"
    program.write_text(textwrap.dedent(code))
    finished = subprocess.run([sys.executable, program], capture_output=True, text=True, check=False)
    assert finished.returncode == 0, finished.stderr
    return finished.stdout


def test_no_program_imports_the_compiler_or_the_movie_library_unasked(tmp_path: Path) -> None:
    """Not with any library, from the imports of the programs over those of a simulation to an optimizer step."""
    printed = _run(
        tmp_path,
        """
        import sys
        import ledger_lab.training.checkpoints.play, ledger_lab.training.evaluation.run
        import ledger_lab.training.profiling.run, ledger_lab.training.run
        import torch
        from ledger_lab.ledger.libraries import LIBRARIES
        from ledger_lab.training.runners.adapter import load_adapter
        from ledger_lab.training.runners.configs import resolve_configs
        from ledger_lab.training.runners.lean_imports import import_environment
        from ledger_lab.tasks.registry import registered_tasks
        registered_tasks()
        for library in LIBRARIES:
            load_adapter(library)
        cfg = resolve_configs("LedgerLab-Cartpole", "rsl_rl", [])[0]
        import_environment(cfg)
        parameter = torch.nn.Parameter(torch.ones(2))
        optimizer = torch.optim.Adam([parameter], lr=0.5)
        optimizer.zero_grad()
        parameter.sum().backward()
        optimizer.step()
        print(round(parameter[0].item(), 3), sorted(LIBRARIES), "mujoco_warp" in sys.modules)
        unused = ("torch._dynamo.eval_frame", "sympy", "networkx", "moviepy", "matplotlib", "IPython", "pygame", "onnx")
        print([name for name in unused if name in sys.modules])
    """,
    )
    assert printed.splitlines()[-2:] == ["0.5 ['rl_games', 'rsl_rl', 'skrl'] True", "[]"]


@pytest.mark.thorough
def test_the_movie_library_is_imported_for_videos_alone(tmp_path: Path) -> None:
    printed = _run(
        tmp_path,
        """
        import sys
        from types import SimpleNamespace
        from ledger_lab.training.runners import lean_imports
        lean_imports.import_environment(SimpleNamespace(video_recorders=[], sim=SimpleNamespace(physics=None)))
        import isaaclab.envs.manager_based_env
        print("moviepy" in sys.modules, "matplotlib" in sys.modules)
        recorder = lean_imports.import_video_recorder()
        print(recorder.ImageSequenceClip.__module__, "moviepy.editor" in sys.modules)
    """,
    )
    lines = [line for line in printed.splitlines() if line.startswith(("False", "True", "moviepy"))]
    assert lines == ["False False", "moviepy.video.io.ImageSequenceClip True"]
