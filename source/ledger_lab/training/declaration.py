"""What a run says of itself before anything is spent."""

from __future__ import annotations

import sys
from pathlib import Path

import torch

from ledger_lab.ledger import RunDeclared
from ledger_lab.meters import git_facts, hardware_facts, package_versions
from ledger_lab.panels import ERROR_BUDGET
from ledger_lab.physics import physics_name
from ledger_lab.runners.code import code_sha256
from ledger_lab.training.plan import TrainPlan


def declaration(plan: TrainPlan) -> RunDeclared:
    """Return the row that says what the run is going to do."""
    began_from = None if plan.beginning is None else plan.beginning.told
    if plan.resumed is not None:
        began_from = plan.resumed.declared.began_from
    return RunDeclared(
        run_id=plan.run_id,
        cohort=plan.cohort,
        task=plan.task,
        rl_library=plan.adapter.library,
        experiment=plan.adapter.experiment(plan.agent_cfg),
        overrides=plan.overrides,
        agent=plan.agent,
        seed=plan.seed,
        device=plan.device,
        num_envs=plan.env_cfg.scene.num_envs,
        world_size=plan.world.size,
        machines=plan.world.machines,
        max_iterations=plan.batch.max_iterations,
        horizon=plan.batch.horizon,
        epochs=plan.batch.epochs,
        minibatches=plan.batch.minibatches_of(plan.env_cfg.scene.num_envs),
        panel=plan.panel.source,
        panel_id=plan.identity.id,
        panel_fields=plan.identity.fields,
        target_success=plan.panel.target_success,
        held_out_slots=plan.held_out_slots,
        eval_every=plan.eval_every,
        save_state_every=plan.save_state_every,
        stop_at_target=plan.stop_at_target,
        error_budget=ERROR_BUDGET,
        stop_on=plan.stop_on,
        physics=physics_name(plan.env_cfg),
        timing=plan.timing,
        price=plan.price.to_dict(),
        config_sha256=plan.config_sha256,
        versions=package_versions(),
        code_sha256=code_sha256(plan.task, plan.env_cfg),
        began_from=began_from,
        git=git_facts(Path(__file__).parent),
        hardware={
            **hardware_facts(),
            "torch_threads": torch.get_num_threads(),
            "accelerator": None if plan.device == "cpu" else torch.cuda.get_device_name(plan.device),
            "accelerator_memory_bytes": (
                None if plan.device == "cpu" else torch.cuda.get_device_properties(plan.device).total_memory
            ),
        },
        command=sys.argv,
    )
