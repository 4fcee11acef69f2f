"""Definitions of the page's figures and phases."""

from __future__ import annotations

from ledger_lab.meters import Phase

WORDS = {
    "success": "Share of held-out episodes that succeeded, each seed and cell counted once. The 95 % Wilson "
    "interval is in brackets. The cost table shows the confirmation that proved a policy; without one, the last "
    "checkpoint that was screened.",
    "screening, confirmation": "A checkpoint is screened on the panel of its run, whose seeds stay the same. If it "
    "passes, it is confirmed on fresh seeds. Only the confirmation proves that it reaches the target.",
    "to target": "Wall-clock time until a policy was confirmed to reach the target: start-up, compilation, training "
    "and judging of all attempts. “> 2:00” marks a run that missed the target in its 2:00 minutes; it always counts.",
    "cost": "All seconds of all attempts, failed ones included, rounded as the price entry says, × the price of the "
    "instances. Runs without a price are “unpriced”, never free.",
    "cost per target-reaching checkpoint": "Spend of all runs of a cohort, failed ones included, ÷ number of runs that "
    "reached the target. Without such a run it is undefined, and the spend is a lower bound.",
    "missing run": "A run that was declared with its cohort and never started.",
    "steps/s": "Environment steps of the learner, over all processes, ÷ seconds in the training loop: all phases but "
    "startup, compile, evaluate and shutdown. Steps of held-out episodes do not count.",
    "updates/min": "Iterations of collecting and learning ÷ minutes in the training loop.",
    "energy": "Energy of a run's accelerators in all attempts, by their own counters; “~” marks a sum integrated "
    "from samples of their power. There is no figure if more than a tenth of the time was not measured.",
    "eval share": "Seconds in the phase evaluate ÷ wall-clock seconds of all attempts.",
    "training return": "Mean return of recently ended training episodes, with exploration, noise and curriculum. It "
    "does not prove success.",
    "median [lowest, highest]": "Over the runs of a side, if it has several.",
}

PHASE_WORDS = {
    Phase.STARTUP: "imports, app launch, scene creation, first reset",
    Phase.COMPILE: "building and loading kernels, capturing graphs",
    Phase.SIMULATE: "the physics engine inside the environment's step",
    Phase.MANAGE: "the rest of the step: actions, observations, rewards, terminations, resets, commands",
    Phase.INFER: "forward passes of policy and value function in the rollout",
    Phase.RETURNS: "returns and advantages",
    Phase.LEARN: "minibatches: forward, backward, optimizer",
    Phase.SYNCHRONIZE: "collectives between processes",
    Phase.TRANSFER: "copies between host and device, where they can be measured",
    Phase.EVALUATE: "scoring policies on held-out episodes",
    Phase.LOG: "statistics, progress and the ledger itself",
    Phase.CHECKPOINT: "saving and hashing policies",
    Phase.RESTART: "starting again after an interruption, and training lost work again",
    Phase.SHUTDOWN: "from the row that records the end of an attempt until its processes have exited",
    Phase.UNATTRIBUTED: "time that no other phase covers",
}
