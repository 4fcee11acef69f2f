#!/usr/bin/env bash
#
# Fills a kernel cache by training tasks for one iteration: compile_kernels.sh FOLDER [TASK...]
#
# Use it also for a cache that many jobs share, before the first of them starts.

set -euo pipefail
cd -- "$(dirname -- "$(readlink -f -- "${BASH_SOURCE[0]}")")/.."
export WARP_CACHE_PATH=$1
shift
scratch=$(mktemp -d)
trap 'rm -rf -- "$scratch"' EXIT
export HOME=$scratch

for task; do
    echo "compiling the kernels of $task" >&2
    ./isaaclab.sh -p scripts/train.py --task "$task" --num_envs 64 --max_iterations 1 --log_root "$scratch/logs" \
        >"$scratch/output" 2>&1 || {
        tail -n 20 -- "$scratch/output" >&2
        exit 1
    }
done
if (($#)); then # the renderer of videos has kernels, too
    ./isaaclab.sh -p scripts/play.py --task "$1" --pretrained --video --video_length 2 --num_envs 1 \
        --log_root "$scratch/logs" >"$scratch/output" 2>&1 || {
        tail -n 20 -- "$scratch/output" >&2
        exit 1
    }
fi
[[ ! -d $WARP_CACHE_PATH ]] || chmod -R a+rX -- "$WARP_CACHE_PATH"
