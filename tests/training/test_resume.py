"""An interrupted training continues with correct totals."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import sys
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from ledger_lab.errors import UserError
from ledger_lab.ledger import (
    STATE_FILE,
    AttemptStarted,
    Journal,
    StateRestored,
    StateSaved,
    Status,
    SupervisionStarted,
    read_journal,
)
from ledger_lab.ledger.liveness import identify_process
from ledger_lab.panels import find_panels
from ledger_lab.reports import summarize_run
from tests.conftest import ROOT, SHORT, command, fake, one_run_dir, script
from tests.fakes.ledgers import SECOND, write_further_rank, write_run
from tests.fakes.supervised import run_of

HOST = socket.gethostname()


def interrupted(when: str, *arguments: str | Path) -> subprocess.CompletedProcess[str]:
    """Train, and send a signal to the training at an iteration."""
    return fake("interrupted", *arguments, when)


def require_valid(root: Path, status: Status) -> None:
    """Check that an ended attempt left a sound ledger, in which all of its time has a phase."""
    assert script("verify_ledger", "--log_root", root).returncode == 0
    summary = summarize_run(run_of(root))
    assert (summary.status, summary.wall_to_target_s) == (status, None)
    assert sum(summary.phases.values()) == pytest.approx(summary.wall_s, abs=1e-3) and summary.wall_s > 0


@pytest.fixture(scope="module")
def resumed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Root of a ledger with a short training that got SIGTERM in iteration 1 and SIGKILL in iteration 2.

    SIGKILL comes before the state of iteration 2 is saved, so this iteration is lost.
    """
    root = tmp_path_factory.mktemp("resumed")
    asked = interrupted("1:SIGTERM", *SHORT, "--log_root", root, "--usd_per_hour", "3.6", "--cohort", "tests")
    assert asked.returncode == 75, asked.stdout + asked.stderr
    assert "Traceback" not in asked.stdout + asked.stderr
    require_valid(root, Status.PREEMPTED)
    run_id = run_of(root).declared.run_id
    assert f"supervisor: resume it: ./isaaclab.sh -p scripts/train.py --resume {one_run_dir(root)}" in asked.stderr
    killed = interrupted("2:SIGKILL", "--resume", run_id, "--log_root", root)
    assert killed.returncode == 137, killed.stdout + killed.stderr
    assert killed.stderr.rstrip().endswith(f"resume it: ./isaaclab.sh -p scripts/train.py --resume {one_run_dir(root)}")
    require_valid(root, Status.KILLED)
    finished = script("train", "--resume", one_run_dir(root), "--num_envs", "64", "--device", "cpu")
    assert finished.returncode == 0, finished.stdout + finished.stderr
    assert f"run {run_id} · attempt 3, from iteration 1 ·" in finished.stdout
    return root


def test_a_resumed_run_goes_on_where_its_state_was_saved(trained: Path, resumed: Path) -> None:
    whole, parts = run_of(trained), run_of(resumed)
    saved, again = ({row.path: row.sha256 for row in run.checkpoints} for run in (whole, parts))
    assert saved.keys() == again.keys() and saved["model_0.pt"] == again["model_0.pt"]
    assert [row.needed for row in parts.results] == [row.needed for row in whole.results]
    figures = [{w.iteration: w.figures for _, w in run.windows if w.figures} for run in (whole, parts)]
    assert figures[0][1] == figures[1][1] and len(figures[1]) == 3
    restored = [row for attempt in parts.attempts for row in attempt.of(StateRestored)]
    assert [(row.attempt, row.iteration, row.reasons) for row in restored] == [(1, 1, [])] * 2


def test_every_attempt_has_an_end_and_the_ledger_is_intact(resumed: Path) -> None:
    run = run_of(resumed)
    assert [attempt.status for attempt in run.attempts] == [Status.PREEMPTED, Status.KILLED, Status.COMPLETED]
    assert "SIGTERM" in str(run.attempts[0].ended and run.attempts[0].ended.reason)
    assert script("verify_ledger", "--log_root", resumed).returncode == 0
    assert [row.iteration for row in run.attempts[0].of(StateSaved)] == [1]
    assert [row.iteration for row in run.attempts[2].of(StateSaved)] == [2, 3]
    assert not list(resumed.rglob(f"{STATE_FILE}*")), "what is over needs no state"


def test_totals_add_up_over_attempts(resumed: Path) -> None:
    run = run_of(resumed)
    summary = summarize_run(run)
    assert summary.env_steps == 64 * 32 * 3
    walls_ns = [attempt.wall_ns for attempt in run.attempts]
    assert summary.wall_s == sum(walls_ns) / 1e9
    assert summary.billable_usd is not None
    rounded_up_s = summary.billable_usd * 1000 - summary.wall_s
    assert 0 <= rounded_up_s < len(run.attempts), "each attempt is billed in whole seconds"
    assert sum(round(1e9 * seconds) for seconds in summary.phases.values()) == sum(walls_ns)
    lost = run.attempts[1].windows
    assert [window.iteration for window in lost] == [None, 2] and all(run.is_lost(run.attempts[1], w) for w in lost)
    again = [w for w in run.attempts[2].windows if not run.is_lost(run.attempts[2], w)]
    starts_ns = sum(window.phase_ns.get("restart", 0) for window in again)
    lost_ns = sum(sum(window.phase_ns.values()) for window in lost)
    untold_ns = [max(a.ended.wall_ns - a.sums.wall_ns, 0) for a in run.attempts[:2] if a.ended]
    assert round(1e9 * summary.phases["restart"]) == starts_ns + lost_ns + sum(untold_ns)
    assert [w.iteration for _, w in run.windows if w.figures] == [1, 2, 3]


REQUEST = {"task": "LedgerLab-Cartpole", "num_envs": 64, "seed": 42, "held_out_slots": 256}


def write(root: Path, status: Status | None = Status.PREEMPTED, supervised: bool = False, **changes: Any) -> Path:
    """Write a run of one attempt, which saved a state after its first iteration; return its directory."""
    fields = {"state": True, "request": asked(num_envs=64), **REQUEST, **changes}
    run_dir = write_run(root, "aaaaaaaa", scores=(), status=status, **fields)
    if changes.get("world_size") == 2:
        write_further_rank(run_dir)
    if supervised:
        (started,) = read_journal(run_dir / "journal-1-0.jsonl").of(AttemptStarted)
        of = {
            name: getattr(started, name) for name in ("run_id", "attempt", "rank", "pid", "host", "wall_ns", "process")
        }
        with Journal(run_dir / "journal-1-supervisor.jsonl") as journal:
            journal.append(SupervisionStarted(**of))
    return run_dir


def asked(**flags: Any) -> dict[str, Any]:
    """Return the stored request of a training with some flags."""
    from ledger_lab.training.request import TrainRequest

    return TrainRequest(**flags).to_data()


def resumption(*argv: str) -> tuple[Any, Any]:
    """Return what ``find_resumption`` makes of a command line."""
    from ledger_lab.training.request import TrainRequest
    from ledger_lab.training.resume import find_resumption

    return find_resumption(TrainRequest.parse(argv))


def damaged(root: Path) -> None:
    """Change the state of a run."""
    (write(root) / STATE_FILE).write_bytes(b"t")


def gone(root: Path) -> None:
    """Take the state of a run away."""
    (write(root) / STATE_FILE).unlink()


@pytest.mark.parametrize(
    ("make", "arguments", "complaint"),
    [
        (lambda root: None, [], r"no checkpoint, run directory or run id 'aaaa'"),
        (lambda root: write(root, status=None, pid=os.getpid()), [], r"is still alive \(process PID on "),
        (lambda root: write(root, status=Status.PREEMPTED, pid=os.getpid()), [], r"is still alive"),
        (
            lambda root: write(root, status=None, host="node-9"),
            [],
            r"is still alive \(process \d+ on node-9\): .*; on another host it counts as lost after 15 silent minutes",
        ),
        (
            lambda root: write(root, status=None, host="node-9", supervised=True),
            [],
            r"is still alive \(process \d+ on node-9\): .*; on another host it counts as lost after 2 silent minutes",
        ),
        (lambda root: write(root, status=Status.TARGET_REACHED), [], r"has ended: target reached. There is nothing to"),
        (lambda root: write(root, status=Status.COMPLETED), [], r"has ended: completed"),
        (lambda root: write(root, status=Status.STOPPED), [], r"has ended: stopped"),
        (lambda root: write(root, state=False), [], r"ended before it saved a state"),
        (damaged, [], r"training_state.pt is damaged: its SHA-256 is e3b98a4da31a…, which the ledger does not know"),
        (gone, [], r"training_state.pt is missing"),
        (write, ["--task", "LedgerLab-Ant"], r"LedgerLab-Ant: run aaaaaaaa was declared with LedgerLab-Cartpole"),
        (
            lambda root: write(root, world_size=2),
            [],
            r"run aaaaaaaa was declared for 2 processes, not 1: use --nproc 2",
        ),
        (write, ["--num_envs", "128"], r"--num_envs 128: run aaaaaaaa was declared with 64"),
        (write, ["--max_iterations", "9"], r"--max_iterations 9: run aaaaaaaa was declared with 2"),
        (write, ["--no_eval"], r"--no_eval: run aaaaaaaa was declared without it"),
        (write, ["--device", "cuda:1"], r"--device cuda:1: run aaaaaaaa was declared with cpu"),
        (write, ["--stop_on", "no_convergence"], r"--stop_on .*no_convergence.*: run .* was declared with non_finite"),
        (
            write,
            ["--usd_per_hour", "1"],
            r"--usd_per_hour 1.0: run aaaaaaaa was declared without it, which can't change",
        ),
        (
            lambda root: write(root, request=asked(usd_per_hour=2.0)),
            ["--usd_per_hour", "1"],
            r"--usd_per_hour 1.0: run aaaaaaaa was declared with 2.0, which can't change: leave",
        ),
        (
            lambda root: write(root, request={"flag_of_tomorrow": 1}),
            [],
            r"run aaaaaaaa was declared with flags that this version of LedgerLab refuses \(.*'flag_of_tomorrow'\)",
        ),
        (lambda root: write(root, verdict_rule=9), [], r"version 9 of the verdict's rule, and .* up to \d+: resume"),
        (write, ["agent.seed=3"], r"override 'agent.seed=3': run aaaaaaaa was declared without it"),
    ],
)
def test_runs_that_cannot_be_resumed_are_refused(
    make: Callable[[Path], object], arguments: list[str], complaint: str, tmp_path: Path
) -> None:
    make(tmp_path)
    with pytest.raises(UserError, match=complaint.replace("PID", str(os.getpid()))) as refused:
        resumption("--resume", "aaaa", *arguments, "--log_root", str(tmp_path))
    assert "\n" not in str(refused.value)


IN_ANOTHER_CONTAINER = ("unshare", "-pf", "--mount-proc")
AS_ANOTHER_USER = (
    *("setpriv", "--reuid", "65534", "--clear-groups"),
    *("--inh-caps", "+dac_read_search", "--ambient-caps", "+dac_read_search"),  # it may read all files, and write none
)


def require(prefix: Sequence[str]) -> None:
    """Skip where a program can't be started like that."""
    if shutil.which(prefix[0]) is None:
        pytest.skip(f"there is no {prefix[0]}")
    tried = subprocess.run([*prefix, sys.executable, "-c", ""], capture_output=True, text=True, check=False)
    if tried.returncode:
        pytest.skip(f"{prefix[0]} is not allowed here: {tried.stderr.strip()}")


@pytest.mark.parametrize(
    "prefix",
    [
        pytest.param(IN_ANOTHER_CONTAINER, id="container"),
        pytest.param(AS_ANOTHER_USER, id="user", marks=pytest.mark.thorough),
    ],
)
def test_a_live_run_is_not_taken_over(prefix: tuple[str, ...], tmp_path: Path) -> None:
    require(prefix)
    with subprocess.Popen(["sleep", "600"]) as live:
        try:
            process = identify_process(live.pid)
            run_dir = write(tmp_path, status=None, pid=live.pid, process=process, supervised=True)
            before = {path.name: path.read_bytes() for path in run_dir.iterdir()}
            program = [*prefix, *command("train", "--resume", run_dir)]
            refused = subprocess.run(program, capture_output=True, text=True, check=False, cwd=ROOT)
        finally:
            live.kill()
    assert (refused.returncode, refused.stdout) == (2, "")
    assert refused.stderr.startswith(f"error: run aaaaaaaa is still alive (process {live.pid} on {HOST}): wait until")
    blind = "; seen from another container or by another user it counts as lost after 2 silent minutes"
    assert (blind in refused.stderr) == (prefix == IN_ANOTHER_CONTAINER)
    assert refused.stderr.count("\n") == 1
    assert {path.name: path.read_bytes() for path in run_dir.iterdir()} == before


@pytest.mark.slow
def test_of_simultaneous_resumes_exactly_one_starts(tmp_path: Path) -> None:
    assert interrupted("1:SIGTERM", *SHORT, "--log_root", tmp_path).returncode == 75
    run_dir = one_run_dir(tmp_path)
    resume = command("train", "--resume", run_dir)
    prefixes: list[tuple[str, ...]] = [(), ()]
    for prefix in (IN_ANOTHER_CONTAINER, AS_ANOTHER_USER):
        try:
            require(prefix)
            prefixes.append(prefix)
        except pytest.skip.Exception:
            continue
    processes = [
        subprocess.Popen([*prefix, *resume], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=ROOT)
        for prefix in prefixes
    ]
    said = [process.communicate() for process in processes]
    ended = [process.returncode for process in processes]
    assert sorted(ended) == [0, *[2] * (len(ended) - 1)], said
    for (stdout, stderr), prefix, status in zip(said, prefixes, ended, strict=True):
        if status == 0:
            assert prefix != AS_ANOTHER_USER
            continue
        assert stdout == "" and stderr.count("\n") == 1
        reasons = ["is being resumed already", "is still alive"]
        if prefix == AS_ANOTHER_USER:
            reasons += [f"cannot write to {run_dir}: "]
        assert any(reason in stderr for reason in reasons), stderr
    run = run_of(tmp_path)
    assert [attempt.status for attempt in run.attempts] == [Status.PREEMPTED, Status.COMPLETED]
    assert [window.iteration for _, window in run.windows if window.figures] == [1, 2, 3]
    assert script("verify_ledger", "--log_root", tmp_path).returncode == 0


def test_a_resumed_run_uses_the_stored_request(tmp_path: Path) -> None:
    declared_with = asked(num_envs=64, eval_every=3, save_state_every=5, grace_s=99.0, logger=("wandb",), target=0.5)
    write(tmp_path, request=declared_with)
    argv = ["--resume", "aaaa", "--num_envs", "64", "--log_root", str(tmp_path)]
    request, resumed = resumption(*argv)
    assert (request.num_envs, request.eval_every, request.target, request.seed) == (64, 3, 0.5, None)
    assert (request.save_state_every, request.grace_s, request.logger) == (5, 20.0, ()), "each attempt sets these flags"
    assert (request.resume, request.log_root) == ("aaaa", tmp_path)
    assert (resumed.attempt, resumed.saved_by, resumed.state.iteration) == (2, 1, 1)
    assert (resumed.train_ns, resumed.evaluate_ns) == (3 * SECOND, 0)
    assert resumption(*argv, "--save_state_every", "7")[0].save_state_every == 7


def test_a_resumed_run_accepts_its_original_flags(tmp_path: Path) -> None:
    flags = ["--instance", "mine", "--usd_per_hour", "1.0", "--prices", "p.toml", "--cohort", "c", "--cohort_size", "3"]
    more = {"instance": "mine", "usd_per_hour": 1.0, "prices": Path("p.toml"), "cohort": "c", "cohort_size": 3}
    write(tmp_path, request=asked(**more, scale_lr="sqrt", overrides=("agent.seed=3",)))
    flags += ["--scale_lr", "sqrt", "agent.seed=3", "--grace_s", "290"]
    request, _ = resumption("--resume", "aaaa", "--log_root", str(tmp_path), *flags)
    assert (request.cohort, request.prices, request.scale_lr, request.grace_s) == ("c", Path("p.toml"), "sqrt", 290)


def test_a_resumed_run_accepts_flags_with_the_resolved_values(tmp_path: Path) -> None:
    write(tmp_path, request=asked())
    flags = ["--seed", "42", "--device", "cpu", "--rl_library", "rsl_rl"]
    request, _ = resumption("--resume", "aaaa", "--log_root", str(tmp_path), *flags)
    assert (request.seed, request.device, request.rl_library) == (None, None, None)


def test_a_run_with_changed_code_is_refused_unless_allowed(tmp_path: Path) -> None:
    from ledger_lab.training.resume import require_same_declaration
    from ledger_lab.training.runners.process_group import ALONE

    code, hardware = (
        {"ledger_lab": "a" * 64, "acme_tasks": "b" * 64},
        {"cpu_cores": 2, "act_threads": 1, "learn_threads": 2},
    )
    write(tmp_path, git={"commit": "aaa"}, code_sha256=code, versions={"torch": "2.10"}, hardware=hardware)
    _, resumed = resumption("--resume", "aaaa", "--log_root", str(tmp_path))
    same = resumed.declared
    free = replace(same, command=["other"], request=None, git={"commit": "bbb", "changes_sha256": "c"})
    assert require_same_declaration(free, resumed, ALONE, False).reasons == ()
    edited = replace(same, code_sha256={**code, "acme_tasks": "c" * 64})
    difference = "the source of acme_tasks: 'cccccccccccc' != 'bbbbbbbbbbbb'"
    with pytest.raises(UserError, match=rf"with other code: {difference} \(now != then\).*--allow_changed_code"):
        require_same_declaration(edited, resumed, ALONE, False)
    assert require_same_declaration(edited, resumed, ALONE, True).reasons == (f"other code: {difference}",)
    told = replace(resumed, declared=replace(same, scoring_code={"acme_tasks.actor": "d" * 64}))
    negated = replace(same, scoring_code={"acme_tasks.actor": "e" * 64})
    with pytest.raises(UserError, match=r"the source of acme_tasks.actor: 'eeeeeeeeeeee' != 'dddddddddddd'"):
        require_same_declaration(negated, told, ALONE, False)
    with pytest.raises(UserError, match=r"versions.torch: '2.11' != '2.10'"):
        require_same_declaration(replace(same, versions={"torch": "2.11"}), resumed, ALONE, False)
    with pytest.raises(UserError, match=r"was declared differently: panel_id: 'p1-bb' != 'p1-aa'"):
        require_same_declaration(replace(same, panel_id="p1-bb"), resumed, ALONE, True)
    elsewhere = require_same_declaration(replace(same, hardware={**hardware, "cpu_cores": 4}), resumed, ALONE, False)
    assert elsewhere.reasons == ("other hardware: hardware.cpu_cores: 4 != 2",)
    spread = replace(same, hardware={**hardware, "learn_threads": 4})
    reason = "other hardware: hardware.learn_threads: 4 != 2"
    assert require_same_declaration(spread, resumed, ALONE, False).reasons == (reason,)


def test_the_code_hashes_cover_ledger_lab_and_the_task(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import gymnasium as gym

    from ledger_lab.ledger.meters.host import package_sha256
    from ledger_lab.tasks.registry import registered_tasks
    from ledger_lab.training.plan import _common, plan_training
    from ledger_lab.training.request import TrainRequest
    from ledger_lab.training.runners.configs import resolve_configs
    from ledger_lab.training.runners.description import code_sha256

    registered_tasks()
    ours, task, module = gym.spec("LedgerLab-Cartpole").kwargs, "Acme-Cartpole", tmp_path / "acme_cartpole.py"
    panel = find_panels()["cartpole_v1"].read_text().replace("LedgerLab-Cartpole", task)
    (tmp_path / "panel.toml").write_text(panel)
    terms = tmp_path / "acme_terms.py"
    terms.write_text("def slow(env):\n    return -env.scene['robot'].data.joint_vel.torch.abs().sum(dim=1)\n")
    module.write_text(
        "from isaaclab.managers import RewardTermCfg\nfrom isaaclab.utils import configclass\n"
        "from ledger_lab.tasks.cartpole import env_cfg\nimport acme_terms\n"
        "@configclass\nclass CartpoleEnvCfg(env_cfg.CartpoleEnvCfg):\n    def __post_init__(self):\n"
        "        super().__post_init__()\n"
        "        self.rewards.slow = RewardTermCfg(func=acme_terms.slow, weight=0.1)\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    entry = ours["env_cfg_entry_point"].replace("ledger_lab.tasks.cartpole.env_cfg", module.stem)
    gym.register(id=task, entry_point="isaaclab.envs:ManagerBasedRLEnv", kwargs={**ours, "env_cfg_entry_point": entry})
    try:
        argv = ["--task", task, "--panel", str(tmp_path / "panel.toml"), "--device", "cpu"]
        argv += ["--log_root", str(tmp_path / "logs")]
        plan = plan_training(TrainRequest.parse(argv))
        row = plan.declared
        assert list(row.code_sha256) == ["ledger_lab", module.stem, terms.stem]
        assert row.code_sha256[terms.stem] == package_sha256(terms.stem)
        assert (row.hardware["act_threads"], row.hardware["learn_threads"]) == (1, 1), "the networks are small"
        common = _common(plan)
        assert [common[f"the source of {name}"] for name in row.code_sha256] == list(row.code_sha256.values())
        assert common["the version of torch"] == row.versions["torch"] and common["seed"] == row.seed
        for edited in (module, terms):
            edited.write_text(edited.read_text() + "GRAVITY = 0.0\n")
        again = _common(plan_training(TrainRequest.parse(argv)))
        assert list(row.scoring_code or {}) == ["ledger_lab.tasks.cartpole.success"], "a reward scores nothing"
        assert [*row.panel_fields["code"].values()] == [*(row.scoring_code or {}).values()]
        for edited in (module, terms):
            assert again[f"the source of {edited.stem}"] != row.code_sha256[edited.stem]
    finally:
        gym.registry.pop(task)
    for task in ("LedgerLab-Cartpole", "Isaac-Cartpole"):
        assert list(code_sha256(task, *resolve_configs(task, "rsl_rl", []))) == ["ledger_lab"]
