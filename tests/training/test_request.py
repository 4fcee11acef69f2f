"""Requests of a training are checked when they are made, stored completely, read again, and planned."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from ledger_lab.errors import UserError
from ledger_lab.ledger import CohortDeclared, Journal, RunDeclared, cohort_journal, read_journal
from ledger_lab.reports.terminal.request import flag_names
from ledger_lab.training.plan import with_agent
from ledger_lab.training.request import TrainRequest
from tests.fakes.ledgers import declared
from tests.fakes.plans import planned


def asked(*argv: str) -> TrainRequest:
    """Parse a command line of ``train.py``."""
    return TrainRequest.parse(argv)


def test_a_command_line_becomes_a_request_with_its_defaults() -> None:
    request = asked(
        "--num_envs", "64", "--logger", "wandb", "--logger", "mlflow", "--no_stop_at_target", "agent.seed=3"
    )
    assert request == TrainRequest(
        num_envs=64,
        logger=("wandb", "mlflow"),
        stop_at_target=False,
        overrides=("agent.seed=3",),
        launcher=request.launcher,
        given=("num_envs", "stop_at_target", "logger"),
    )
    assert request.device is None and request.launcher_args("cpu")["device"] == "cpu"
    assert asked("--device", "cpu").given == ("device",)


def test_a_request_is_stored_as_json_and_read_again() -> None:
    request = asked("--prices", "p.toml", "--stop_on", "entropy_collapse", "--grace_s", "9", "env.decimation=4")
    stored = json.loads(json.dumps(request.to_data()))
    assert TrainRequest.from_data(stored) == request
    assert {*flag_names(TrainRequest)} <= {*stored}, "defaults are stored, too: they may be others tomorrow"


def test_a_panel_file_is_found_from_any_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "mine.toml").touch()
    monkeypatch.chdir(tmp_path)
    assert TrainRequest(panel="mine.toml").panel == str(tmp_path / "mine.toml")
    assert TrainRequest(panel="cartpole_v1").panel == "cartpole_v1"


@pytest.mark.parametrize(
    ("flags", "complaint"),
    [
        ({"num_envs": 0}, "--num_envs 0: must be at least 1"),
        ({"max_iterations": -1}, "--max_iterations -1: must be at least 1"),
        ({"eval_every": 0}, "--eval_every 0: must be at least 1"),
        ({"save_state_every": -1}, "--save_state_every -1: must not be negative"),
        ({"limit_s": 0.0}, "--limit_s 0: must be above 0, and finite"),
        ({"limit_s": float("nan")}, "--limit_s nan: must be above 0, and finite"),
        ({"grace_s": 0.0}, "--grace_s 0: must be above 0"),
        ({"cohort": "../out"}, "--cohort '../out': must be a name"),
        ({"target": 90.0}, "--target 90.0: must be above 0 and at most 1"),
        ({"cohort": "c", "cohort_size": 0}, "--cohort_size 0: must be at least 1"),
        ({"cohort_size": 3}, "--cohort_size 3: name the cohort with --cohort"),
        ({"nproc": 2}, "--nproc 2: give --nproc on the command line of train.py"),
        ({"allow_changed_code": True}, "--allow_changed_code: a new run has no earlier code"),
    ],
)
def test_impossible_values_are_refused_when_the_request_is_made(flags: dict[str, Any], complaint: str) -> None:
    with pytest.raises(UserError, match=complaint):
        TrainRequest(**flags)


def test_secrets_of_a_request_are_not_stored(tmp_path: Path) -> None:
    secret = "ghp_" + 24 * "a"
    request = TrainRequest(
        overrides=("agent.wandb.api_key=hunter2hunter2",), launcher={"kit_args": f"--/app/token={secret}"}
    )
    with Journal(tmp_path / "journal-1-0.jsonl") as journal:
        journal.append(declared("aaaaaaaa", request=request.to_data()))
    text = (tmp_path / "journal-1-0.jsonl").read_text()
    assert "hunter2" not in text and secret not in text
    (row,) = read_journal(tmp_path / "journal-1-0.jsonl").rows
    assert isinstance(row, RunDeclared) and row.request is not None
    assert row.request["overrides"] == ["agent.wandb.api_key=[redacted]"]


@pytest.mark.parametrize("library", ["rsl_rl", "rl_games", "skrl"])
def test_the_override_of_a_scaled_learning_rate_gives_the_same_rate(library: str, tmp_path: Path) -> None:
    from ledger_lab.tasks.registry import registered_tasks
    from ledger_lab.training.runners.configs import resolve_configs
    from ledger_lab.training.runners.description import hash_configs

    registered_tasks()
    plan = planned("--rl_library", library, "--num_envs", "1024", "--scale_lr", "sqrt", log_root=tmp_path)
    request = plan.request
    engine, override = plan.declared.overrides
    assert engine == "physics=newton_mujoco"
    env_cfg, agent_cfg = resolve_configs(request.task, library, [override])
    agent_cfg = plan.adapter.prepare(agent_cfg, "cpu")
    assert hash_configs(env_cfg, agent_cfg, plan.adapter)["agent"] == plan.declared.config_sha256["agent"]
    _, unscaled = resolve_configs(request.task, library, [])
    unscaled = plan.adapter.prepare(unscaled, "cpu")
    assert hash_configs(env_cfg, unscaled, plan.adapter)["agent"] != plan.declared.config_sha256["agent"]


@pytest.mark.parametrize(("library", "setting"), [("rsl_rl", "agent.seed"), ("rl_games", "agent.params.seed")])
def test_a_run_without_a_seed_draws_one(tmp_path: Path, library: str, setting: str) -> None:
    from ledger_lab.training.plan import plan_training

    def seed_of(**flags: Any) -> int:
        request = TrainRequest(rl_library=library, device="cpu", log_root=tmp_path, **flags)
        plan = plan_training(request)
        assert plan.env_cfg.seed == plan.declared.seed
        return plan.declared.seed

    assert seed_of() != seed_of(), "no two trainings are the same by accident"
    assert (seed_of(seed=7), seed_of(overrides=(f"{setting}=8",))) == (7, 8)


def chosen(**flags: Any) -> tuple[str, str | None]:
    """Return the library and the agent configuration of a request."""
    library, request = with_agent(TrainRequest(**{"task": "LedgerLab-Cartpole", **flags}))
    return library, request.agent


def test_an_algorithm_selects_a_library_and_a_configuration() -> None:
    assert chosen(algorithm="ppo") == ("rsl_rl", None)
    assert chosen(algorithm="sac") == ("skrl", "skrl_sac_cfg_entry_point")
    assert chosen(algorithm="sac", rl_library="rl_games") == ("rl_games", "rl_games_sac_cfg_entry_point")
    assert chosen(algorithm="td3") == ("skrl", "skrl_td3_cfg_entry_point")
    assert chosen(algorithm="sac", agent="skrl_sac_cfg_entry_point") == ("skrl", "skrl_sac_cfg_entry_point")


@pytest.mark.parametrize(
    ("flags", "complaint"),
    [
        ({"algorithm": "ddpg"}, "--algorithm ddpg: known: ppo, sac, td3"),
        ({"algorithm": "sac", "rl_library": "rsl_rl"}, "RSL-RL has no SAC: use --rl_library skrl"),
        ({"algorithm": "td3", "rl_library": "rl_games"}, "rl_games has no TD3: use --rl_library skrl"),
        (
            {"algorithm": "sac", "task": "LedgerLab-Humanoid"},
            "Humanoid has no configuration for it: register one",
        ),
        ({"algorithm": "sac", "agent": "skrl_cfg_entry_point"}, "it is no configuration of --algorithm sac"),
        ({"algorithm": "td3", "agent": "skrl_sac_cfg_entry_point"}, "it is no configuration of --algorithm td3"),
        (
            {"algorithm": "ppo", "rl_library": "skrl", "agent": "skrl_sac_cfg_entry_point"},
            "it is no configuration of --algorithm ppo",
        ),
    ],
)
def test_what_does_not_fit_is_refused_in_one_line(flags: dict[str, Any], complaint: str) -> None:
    with pytest.raises(UserError, match=complaint) as refused:
        chosen(**flags)
    assert "\n" not in str(refused.value)


def test_a_cohort_is_declared_by_its_first_run_and_keeps_its_size(tmp_path: Path) -> None:
    from ledger_lab.training.run import make_run_dir

    for arguments in (("--cohort", "c", "--cohort_size", "3"), ("--cohort", "c")):
        plan = planned(*arguments, log_root=tmp_path)
        make_run_dir(plan)
        assert plan.request.cohort == "c"
    assert read_journal(cohort_journal(tmp_path, "c")).rows == (CohortDeclared(cohort="c", size=3),)
    other = planned("--cohort", "c", "--cohort_size", "4", log_root=tmp_path)
    with pytest.raises(UserError, match=r"--cohort_size 4: cohort c was declared with 3 runs"):
        make_run_dir(other)
    assert not other.run_dir.exists()
