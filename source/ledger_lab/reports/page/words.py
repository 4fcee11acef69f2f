"""What the figures of the page mean, in words."""

from __future__ import annotations

from ledger_lab.meters import Phase

WORDS = {
    "success": "Share of held-out episodes that succeeded, each seed and cell counted once. In brackets the Wilson "
    "interval, 95 %. The cost table shows the confirmation that proved a policy; where there is none, the last "
    "checkpoint that was screened.",
    "screening, confirmation": "A checkpoint is screened on the panel of its run, whose seeds stay the same. One that "
    "passes is confirmed on fresh seeds, and only that proves that it reaches the target.",
    "to target": "Wall-clock time until a policy was confirmed to reach the target: start-up, compilation, training "
    "and judging of all attempts. “> 2:00” is a run that had not got there after 2:00 minutes; it is never left out.",
    "cost": "All seconds of all attempts, failed ones included, rounded as the price entry says, × the price of the "
    "instances. Runs without a price are “unpriced”, never free.",
    "cost per target-reaching checkpoint": "What all runs of a cohort spent, failed ones included, ÷ the runs that "
    "reached the target. Without such a run it is undefined, and the spend is a lower bound.",
    "missing run": "Declared with its cohort and never made.",
    "steps/s": "Environment steps of the learner, over all processes, ÷ seconds in the training loop: all phases but "
    "startup, compile, evaluate and shutdown. Steps of held-out episodes are not among them.",
    "updates/min": "Iterations of collecting and learning ÷ minutes in the training loop.",
    "energy": "What the accelerators of a run drew in all attempts, by their own counters; “~” where it is integrated "
    "from samples of their power. There is none where more than a tenth of the time went unmetered.",
    "eval share": "Seconds in the phase evaluate ÷ wall-clock seconds of all attempts.",
    "training return": "Mean return of the training episodes that ended lately, as the learner sees it: with its "
    "exploration, its noise and its curriculum. It proves nothing.",
    "median [lowest, highest]": "Of the runs of a side, where several stand together.",
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
    Phase.RESTART: "starting again after an interruption, and what was lost by it and is trained again",
    Phase.SHUTDOWN: "from the row that says how an attempt ended until its processes are gone",
    Phase.UNATTRIBUTED: "covered by no window",
}
