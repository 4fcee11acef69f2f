#!/usr/bin/env bash
#
# Tests an image: docker/accept.sh [IMAGE]
#
# Runs the README's two commands, a video, an interruption and its resumption: as a user that the image does not know,
# without network, on a read-only root. Then runs a minute of each of TASKS (default: all included tasks), which must find
# all kernels in the image. RUNNER is the program with its options (default: docker); RUN_OPTIONS are added to each of its
# `run`s. Needs a quarter of an hour, the processor that built the image, and root or a daemon of root.

set -euo pipefail
image=${1:-ledger_lab}
cd -- "$(dirname -- "$(readlink -f -- "${BASH_SOURCE[0]}")")/.."
read -ra runner <<<"${RUNNER:-docker}"
read -ra options <<<"${RUN_OPTIONS:-}"
user=4321:0
scratch=$(mktemp -d)
name=ledger_lab-accept-$$
logs=$scratch/logs
finish() {
    "${runner[@]}" rm --force "$name" >/dev/null 2>&1 || true
    rm -rf -- "$scratch"
}
trap finish EXIT
mkdir "$scratch/logs" "$scratch/home" "$scratch/other" "$scratch/pod"
chgrp 0 "$scratch"/*
chmod 755 "$scratch"
chmod 2775 "$scratch"/*

step() { printf '\n== %s\n' "$*"; }
die() {
    printf 'docker/accept.sh: %s\n' "$*" >&2
    exit 1
}
# Run a command in the image: options of `run`, --, command.
inside() {
    local more=() said="${*}"
    while [[ $1 != -- ]]; do
        more+=("$1")
        shift
    done
    printf '$ ./isaaclab.sh%s\n' "${said##*./isaaclab.sh}"
    "${runner[@]}" run "${options[@]}" --rm --user "$user" --network none --read-only --tmpfs /tmp \
        --volume "$logs:/workspace/ledger_lab/logs" "${more[@]}" "$image" "${@:2}"
}
with_home=(--volume "$scratch/home:/home/ledger_lab")

step "labels"
labels='{{range $name, $value := .Config.Labels}}{{$name}}={{println $value}}{{end}}'
"${runner[@]}" image inspect --format "$labels" "$image"
revision=$("${runner[@]}" image inspect --format '{{index .Config.Labels "org.opencontainers.image.revision"}}' "$image")

step "the README's second command: a report of recorded runs"
inside "${with_home[@]}" -- ./isaaclab.sh -p scripts/report.py --log_root records/cartpole-cpu

step "the README's first command: training until a policy is confirmed"
inside "${with_home[@]}" -- ./isaaclab.sh -p scripts/train.py
inside "${with_home[@]}" -- ./isaaclab.sh -p scripts/report.py --json - >"$scratch/report.json"
grep -q '"target_reached"' "$scratch/report.json" || die "the training did not reach its target"
[[ $revision == unknown ]] || grep -rqF "\"commit\":\"${revision%-dirty}\"" "$logs" ||
    die "the ledger does not name the commit ${revision%-dirty}"

step "a video without a display"
inside "${with_home[@]}" -- ./isaaclab.sh -p scripts/play.py --task LedgerLab-Ant --pretrained --video --num_envs 1 \
    --video_length 60
[[ -n $(find "$scratch/logs" -name '*.mp4' -size +10k) ]] || die "there is no video"

logs=$scratch/other
step "SIGTERM ends a training with status 75, and --resume continues it"
"${runner[@]}" run "${options[@]}" --detach --name "$name" --user "$user" --network none --read-only --tmpfs /tmp \
    --volume "$logs:/workspace/ledger_lab/logs" "${with_home[@]}" "$image" \
    ./isaaclab.sh -p scripts/train.py --task LedgerLab-Ant --max_iterations 12 --no_stop_at_target \
    agent.save_interval=1 >/dev/null
for ((waited = 0; waited < 600; waited++)); do
    [[ -z $(find "$logs" -name 'model_2.pt') ]] || break
    sleep 1
done
"${runner[@]}" kill --signal TERM "$name" >/dev/null
status=$("${runner[@]}" wait "$name")
"${runner[@]}" logs "$name" 2>&1 | tail -n 3
echo "exit status $status"
[[ $status == 75 ]] || die "a training that SIGTERM interrupts must exit with status 75"
run=$(dirname -- "$(find "$logs" -name 'journal-1-0.jsonl')")
inside "${with_home[@]}" -- ./isaaclab.sh -p scripts/train.py --resume "logs/${run#"$logs/"}"

step "no home, and a home that is not the user's"
for home in --env=HOME= --env=HOME=/root; do
    inside "$home" -- ./isaaclab.sh -p scripts/train.py --num_envs 64 --max_iterations 2
done

step "as in a pod: any user of group 0, no capabilities, the home of the image on a read-only root"
user=1000680000:0 logs=$scratch/pod
inside --cap-drop ALL --security-opt no-new-privileges -- ./isaaclab.sh -p scripts/train.py --num_envs 64 --max_iterations 2

step "a first training compiles no kernel"
first_training='
    find "$WARP_CACHE_PATH" -type f | sort >/tmp/before
    timeout --preserve-status "$@" >/tmp/output || test $? = 75 || { cat /tmp/output; exit 1; }
    grep -q "scoring the last policy" /tmp/output
    find "$WARP_CACHE_PATH" -type f | sort | diff /tmp/before -
    echo "no kernel beyond $(wc -l </tmp/before) in the image"'
for task in ${TASKS-$(cd source/ledger_lab/tasks/pretrained && echo LedgerLab-*)}; do
    # The scoring of the last policy may take minutes, so SIGTERM ends it; the status is 75 then.
    inside -- sh -euc "$first_training" sh "${LIMIT_S:-60}" \
        ./isaaclab.sh -p scripts/train.py --task "$task" --num_envs 64 --max_iterations 2
done

step "accepted"
