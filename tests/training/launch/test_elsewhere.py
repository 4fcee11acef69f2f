"""``--on CLUSTER`` hands a training to the wing of clusters, if there is one."""

from __future__ import annotations

import pytest

from ledger_lab.training.launch import start
from ledger_lab.training.launch.start import Elsewhere, submit_if_asked


def test_the_wing_gets_the_training(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[object] = []
    monkeypatch.setattr(
        "ledger_lab.training.launch.start.wing_part", lambda name: lambda *submitted: asked.extend(submitted)
    )
    submit_if_asked(["--task", "T"])
    assert asked == [], "without --on, it returns"
    with pytest.raises(SystemExit) as ended:
        submit_if_asked(["--task", "T", "--on", "lab", "--nodes", "2"])
    assert not ended.value.code and asked == [Elsewhere(on="lab", nodes=2), ["--task", "T"]]


@pytest.mark.parametrize(
    ("argv", "said"),
    [
        (["--on", "lab"], "error: --on lab: this installation of LedgerLab has no folder `clusters`: restore it\n"),
        (["--nodes", "2"], "error: --nodes needs --on CLUSTER\n"),
        (
            ["--on", "lab", "--nodes", "0"],
            "error: --nodes 0: must be a whole number of at least 1, of at most 6 digits\n",
        ),
    ],
)
def test_a_request_that_cannot_be_submitted_is_refused_in_one_line(
    argv: list[str], said: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(start, "wing_part", lambda name: None)
    with pytest.raises(SystemExit) as ended:
        submit_if_asked(argv)
    assert ended.value.code == 2 and capsys.readouterr().err == said
