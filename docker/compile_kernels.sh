#!/usr/bin/env bash
#
# Fills a kernel cache by training tasks for one iteration: compile_kernels.sh FOLDER [TASK...] [OVERRIDE...]
#
# An override has a `=`, such as physics=newton_mjwarp, and applies to all tasks. Use this program also for a cache that
# many jobs share, before the first of them starts.

set -euo pipefail
cd -- "$(dirname -- "$(readlink -f -- "${BASH_SOURCE[0]}")")/.."
export WARP_CACHE_PATH=$1
shift
scratch=$(mktemp -d)
trap 'rm -rf -- "$scratch"' EXIT
export HOME=$scratch

tasks=() overrides=()
for argument; do
    if [[ $argument == *=* ]]; then overrides+=("$argument"); else tasks+=("$argument"); fi
done
quietly() {
    ./isaaclab.sh -p "$@" --log_root "$scratch/logs" >"$scratch/output" 2>&1 || {
        tail -n 20 -- "$scratch/output" >&2
        exit 1
    }
}
scoring=() # has the same kernels for all tasks, so the first task is enough
for task in "${tasks[@]}"; do
    echo "compiling the kernels of $task" >&2
    quietly scripts/train.py --task "$task" --num_envs 64 --max_iterations 1 "${scoring[@]}" "${overrides[@]}"
    scoring=(--no_eval)
done
if ((${#tasks[@]})); then # the renderer of videos has kernels, too
    quietly scripts/play.py --task "${tasks[0]}" --pretrained --video --video_length 2 --num_envs 1
fi
[[ ! -d $WARP_CACHE_PATH ]] || chmod -R a+rX -- "$WARP_CACHE_PATH"
