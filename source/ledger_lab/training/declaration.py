"""The declaration of a run, written before the run costs anything, and the run's directory."""

from __future__ import annotations

import sys
from pathlib import Path

import torch

from ledger_lab.files import make_folder
from ledger_lab.ledger import RunDeclared, declare_cohort
from ledger_lab.ledger.meters import git_facts, hardware_facts, package_versions
from ledger_lab.ledger.storage import require_file_size, require_storage
from ledger_lab.panels.physics import physics_name
from ledger_lab.training.plan import TrainPlan
from ledger_lab.training.runners.process_group import ALONE, ProcessGroup
from ledger_lab.training.runners.session import gpu_model


def make_run_dir(plan: TrainPlan, group: ProcessGroup = ALONE) -> None:
    """Declare the cohort of a planned run if the request gives its size, and make the run's directory.

    Args:
        plan: The plan.
        group: The processes of the training; all of them call this, because machines may have separate disks.

    Raises:
        UserError: If the cohort was declared with another size, or the directory can't hold a ledger.
    """
    group.agree(require_file_size)
    group.first(lambda: _declare_cohort(plan))
    named = f"--log_root {plan.request.log_root}" if plan.resumed is None else str(plan.run_dir)

    def make() -> None:
        make_folder(plan.run_dir, named)
        require_storage(plan.run_dir, named)

    group.agree(make)


def _declare_cohort(plan: TrainPlan) -> None:
    """Declare the size of the cohort if the request gives it."""
    request = plan.request
    if plan.resumed is None and request.cohort is not None and request.cohort_size is not None:
        declare_cohort(request.log_root, request.cohort, request.cohort_size)


def declaration(plan: TrainPlan) -> RunDeclared:
    """Return the row that declares the run."""
    began_from = None if plan.beginning is None else plan.beginning.began_from
    if plan.resumed is not None:
        began_from = plan.resumed.declared.began_from
    return RunDeclared(
        run_id=plan.run_id,
        cohort=plan.request.cohort,
        task=plan.request.task,
        rl_library=plan.adapter.library,
        experiment=plan.adapter.experiment(plan.agent_cfg),
        overrides=plan.overrides,
        agent=plan.request.agent,
        recipe=plan.recipe,
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
        eval_every=plan.request.eval_every,
        save_state_every=plan.request.save_state_every,
        stop_at_target=plan.request.stop_at_target,
        error_budget=plan.error_budget,
        verdict_rule=plan.verdict_rule,
        stop_on=list(plan.request.stop_on),
        physics=physics_name(plan.env_cfg),
        timing=plan.timing,
        price=plan.price.to_dict(),
        config_sha256=plan.config_sha256,
        versions=package_versions(),
        code_sha256=plan.code_sha256,
        scoring_code=plan.scoring_code,
        began_from=began_from,
        git=git_facts(Path(__file__).parent),
        hardware={
            **hardware_facts(),
            "act_threads": plan.threads.act,
            "learn_threads": plan.threads.learn,
            "accelerator": gpu_model(plan.device),
            "accelerator_memory_bytes": (
                None if plan.device == "cpu" else torch.cuda.get_device_properties(plan.device).total_memory
            ),
        },
        command=sys.argv,
        request=plan.request.to_data(),
    )
