#!/usr/bin/env bash
#
# Runs an unpacked image as Apptainer would, but with Charliecloud: docker/accept_unprivileged.sh FOLDER
#
# FOLDER holds the files of the image (`buildah mount`, or an unpacked `podman export`). The caller is an ordinary user:
# no daemon, no set-user-id program, a read-only root, a home that the image does not know. As with `apptainer exec`, no
# entrypoint is called: a shell sources docker/environment.sh. WARP_CACHE_PATH, if set, is kept, as with `--env`.

set -euo pipefail
root=$1
((EUID)) || {
    echo "docker/accept_unprivileged.sh: call it as an ordinary user" >&2
    exit 2
}
scratch=$(mktemp -d)
trap 'rm -rf -- "$scratch"' EXIT
mkdir "$scratch/logs"
lab=/workspace/ledger_lab
kept=()
[[ -z ${WARP_CACHE_PATH:-} ]] || kept=(--set-env="WARP_CACHE_PATH=$WARP_CACHE_PATH")

inside() {
    printf '\n$ %s\n' "$*"
    USER=${USER:-$(id -u)} ch-run --bind "$scratch/logs:$lab/logs" --cd "$lab" --unset-env='*' \
        --set-env=PATH=/opt/venv/bin:/usr/bin:/bin --set-env=HOME=/nowhere --set-env=PYGLET_HEADLESS=1 "${kept[@]}" \
        "$root" -- sh -c '. docker/environment.sh; exec "$@"' sh "$@"
}

inside sh -c 'id -u; test ! -w . && test -w logs && echo "the root is read-only, logs are writable"'
inside ./isaaclab.sh -p scripts/report.py --log_root records/cartpole-cpu
inside ./isaaclab.sh -p scripts/train.py
inside ./isaaclab.sh -p scripts/report.py
inside ./isaaclab.sh -p scripts/play.py --task LedgerLab-Ant --pretrained --video --num_envs 1 --video_length 60
