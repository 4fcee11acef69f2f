"""``scripts/train.py`` with a fault: after its first update, one parameter of the second process is off by a little."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ledger_lab.reports.terminal.script import compile_forward_only
from ledger_lab.training.launch.start import launch_processes
from ledger_lab.training.supervision.attempt import Link
from ledger_lab.training.supervision.start import run_supervised


def main(argv: Sequence[str], started_ns: int, link: Link) -> None:
    """Train."""
    import torch

    compile_forward_only()
    from ledger_lab.training.run import train_run
    from ledger_lab.training.runners.rsl_rl.adapter import RslRlTrainer

    build = RslRlTrainer.__init__

    def build_with_fault(self: Any, *args: Any) -> None:
        build(self, *args)
        algorithm = self._runner.alg
        update = algorithm.update

        def faulty() -> Any:
            losses = update()
            if torch.distributed.get_rank() == 1:
                with torch.no_grad():
                    algorithm.critic.mlp[0].bias[3] += 1e-6
            return losses

        algorithm.update = faulty

    RslRlTrainer.__init__ = build_with_fault  # type: ignore[method-assign]
    train_run(argv, started_ns, link)


if __name__ == "__main__":
    launch_processes()
    run_supervised(main)
