"""``scripts/profile_run.py``: times of the parts of a task's training iteration.

The library's own loop trains in the task's own simulation, and its callables are timed where they are called. A profile
is not a run: it writes no journal. Its files are in a directory like that of a run, with an id of its own.
"""

from __future__ import annotations

import functools
import statistics
import tempfile
import time
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import asdict, fields
from pathlib import Path
from typing import Any

import torch
from rich.console import Console

from ledger_lab.errors import UserError
from ledger_lab.files import whole_file
from ledger_lab.ledger import Journal
from ledger_lab.ledger.meters.cuda_timer import CudaTimer
from ledger_lab.ledger.meters.phases import PhaseClock
from ledger_lab.ledger.meters.probes import Probes
from ledger_lab.ledger.redaction import redact_files
from ledger_lab.reports.terminal.console import Terminal
from ledger_lab.reports.terminal.findings import write_findings
from ledger_lab.reports.terminal.progress import Progress
from ledger_lab.training.loop import record_checkpoint
from ledger_lab.training.plan import TrainPlan, plan_training
from ledger_lab.training.profiling.request import ProfileRequest
from ledger_lab.training.profiling.stages import (
    Ranges,
    Schedule,
    Stages,
    component_table,
    components,
)
from ledger_lab.training.request import TaskRequest, TrainRequest
from ledger_lab.training.run import make_run_dir
from ledger_lab.training.runners.parts import environment_parts
from ledger_lab.training.runners.session import environment, recorded_physics, simulation_app
from ledger_lab.training.writer import RunWriter

_TOP_OPERATORS = 15


def profile_run(argv: Sequence[str]) -> int:
    """Profile a task.

    Args:
        argv: Command line without the program's name.

    Returns:
        0.

    Raises:
        UserError: If the request can't be carried out.
    """
    request = ProfileRequest.parse(argv)
    if request.json is not None and not request.json.exists() and not request.json.absolute().parent.is_dir():
        raise UserError(f"--json {request.json}: its folder does not exist: make it, or name another file")
    if request.nsys:
        schedule = Schedule(warm_up=request.warm_up + request.iterations, pairs=0, traced=0)
    else:
        schedule = Schedule(warm_up=request.warm_up, pairs=request.iterations, traced=1 if request.trace else 0)
    terminal = Terminal(quiet_libraries=request.quiet_libraries)
    try:
        plan = plan_training(
            TrainRequest(
                **{each.name: getattr(request, each.name) for each in fields(TaskRequest)},
                panel=request.panel,
                eval=False,
                max_iterations=schedule.total,
                log_root=request.log_root,
            )
        )
        make_run_dir(plan)
        terminal.keep_log(plan.run_dir / f"console_{plan.declared.run_id}.log")
        _carry_out(plan, schedule, request, terminal.console)
        return 0
    finally:
        terminal.restore()
        redact_files([terminal.log] if terminal.log else [])


def _carry_out(plan: TrainPlan, schedule: Schedule, request: ProfileRequest, console: Console) -> None:
    """Train through all stages, and report the result."""
    on_gpu = plan.device != "cpu"
    synchronize = CudaTimer(plan.device).synchronize if on_gpu else None
    clock, probes = PhaseClock(time.perf_counter_ns()), Probes(synchronize)
    ranges = Ranges(nvtx=request.nsys)
    if request.trace or request.nsys:
        clock.announce(ranges.opened, ranges.closed)
    declared = plan.declared
    console.print(
        f"profile {declared.run_id} · {declared.task} · {declared.rl_library} · {declared.num_envs} environments · "
        f"{declared.physics} on {declared.device} · seed {declared.seed}",
        plan.run_dir,
        "starting the simulation …",
        sep="\n",
        soft_wrap=True,
    )
    with ExitStack() as stack:
        # The files of the library are not part of the profile, but must be written to the same disk.
        scratch = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="scratch_", dir=plan.run_dir)))
        journal = stack.enter_context(Journal(scratch / "rows.jsonl"))
        stack.enter_context(simulation_app(plan.env_cfg, plan.launcher_args))
        env = stack.enter_context(environment(plan.request.task, plan.env_cfg))
        stack.enter_context(recorded_physics(env))
        with Progress(console, "profiling", schedule.total) as progress:
            stages = Stages(schedule, probes, ranges, synchronize, progress.advance)
            writer = RunWriter(
                journal.append, clock, run_id=plan.declared.run_id, directory=scratch, device=plan.device
            )
            record = functools.partial(record_checkpoint, plan, writer)  # saving includes the work of a training
            trainer = plan.adapter.trainer(env, plan.agent_cfg, scratch, clock, record)
            trainer.compute_in(plan.threads)
            if request.nsys:
                _train_for_nsys(stages, trainer, ranges, request.warm_up, on_gpu=on_gpu)
                return
            stages.train(trainer, [*trainer.parts(), *environment_parts(env)])
        _tell(plan, stages, request, console)


def _train_for_nsys(stages: Stages, trainer: Any, ranges: Ranges, warm_up: int, *, on_gpu: bool) -> None:
    """Train with ranges in the timeline of Nsight Systems after the warm-up, without any other measurement."""
    show = stages.on_advance

    def advance(iterations: int) -> None:
        show(iterations)
        if iterations == warm_up:
            ranges.active = True
            if on_gpu:
                torch.cuda.profiler.start()

    stages.on_advance = advance
    stages.train(trainer, [])
    if on_gpu:
        torch.cuda.profiler.stop()


def _tell(plan: TrainPlan, stages: Stages, request: ProfileRequest, console: Console) -> None:
    """Print the table, and write the files."""
    found = components(stages.probes.samples, len(stages.probed_ns), 1 / plan.batch.save_interval)
    console.print(component_table(found))
    plain_ms, probed_ms = (statistics.median(times) / 1e6 for times in (stages.plain_ns, stages.probed_ns))
    ratio = statistics.median(probed / plain for plain, probed in zip(stages.plain_ns, stages.probed_ns, strict=True))
    console.print(
        f"an iteration takes {plain_ms:.1f} ms, timed piece by piece {probed_ms:.1f} ms "
        f"({100 * (ratio - 1):+.0f} %, median of {len(stages.plain_ns)} pairs)",
        f"a checkpoint every {plan.batch.save_interval} iterations",
        sep="\n",
        soft_wrap=True,
    )
    told = ("run_id", "task", "rl_library", "physics", "device", "num_envs", "hardware")
    findings: dict[str, Any] = {
        **{name: getattr(plan.declared, name) for name in told},
        "batch": asdict(plan.batch),
        "warm_up": stages.schedule.warm_up,
        "plain_iteration_us": [each / 1e3 for each in stages.plain_ns],
        "probed_iteration_us": [each / 1e3 for each in stages.probed_ns],
        "components": [asdict(each) for each in found],
    }
    files = [plan.run_dir / f"profile_{plan.declared.run_id}.json"]
    for path in [*files, *([request.json] if request.json else [])]:
        try:
            write_findings(path, **findings)
        except OSError as error:
            raise UserError(f"cannot write {path}: {error.strerror}") from error
    if stages.profiler is not None:
        files += _write_trace(plan, stages.profiler, console)
    console.print(*files, sep="\n", style="green", soft_wrap=True)


def _write_trace(plan: TrainPlan, profiler: torch.profiler.profile, console: Console) -> list[Path]:
    """Write the trace of torch's profiler, and print the slowest operators."""
    trace = plan.run_dir / f"trace_{plan.declared.run_id}.json.gz"
    with whole_file(trace) as unfinished:
        profiler.export_chrome_trace(str(unfinished))
    order = "self_cpu_time_total" if plan.device == "cpu" else "self_device_time_total"
    table = profiler.key_averages().table(sort_by=order, row_limit=_TOP_OPERATORS, max_name_column_width=50)
    operators = plan.run_dir / f"operators_{plan.declared.run_id}.txt"
    with whole_file(operators) as unfinished:
        unfinished.write_text(table + "\n", encoding="utf-8")
    console.print(*table.splitlines(), sep="\n", soft_wrap=True)
    return [trace, operators]
