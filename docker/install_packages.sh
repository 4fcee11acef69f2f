#!/usr/bin/env bash
#
# Installs the packages of a lock file into a new virtual environment: install_packages.sh LOCK FOLDER
#
# ONLY_PACKAGES names the packages to install; by default, all of the lock file. Every package is checked by its hash,
# and the lock file by LOCK_SHA256, if that is known.

set -euo pipefail
lock=$1 venv=$2
[[ ${LOCK_SHA256:-unknown} == unknown ]] || sha256sum --check --quiet <<<"$LOCK_SHA256  $lock"
scratch=$(mktemp -d)
trap 'rm -rf -- "$scratch"' EXIT

# Print the entries of the named packages.
entries() {
    awk -v names=" $* " '/^[a-z0-9]/ { split($0, part, "=="); wanted = index(names, " " part[1] " ") } wanted' "$lock"
}

if [[ -s /run/secrets/ca.crt ]]; then
    export PIP_CERT=/run/secrets/ca.crt SSL_CERT_FILE=/run/secrets/ca.crt
fi
export PIP_CACHE_DIR=/var/cache/ledger_lab/pip UV_CACHE_DIR=/var/cache/ledger_lab/uv UV_LINK_MODE=copy

wanted=$lock
if [[ -n ${ONLY_PACKAGES:-} ]]; then
    wanted=$scratch/only.lock
    # shellcheck disable=SC2086 # a list of names
    entries $ONLY_PACKAGES uv setuptools >"$wanted"
fi
entries uv >"$scratch/uv.lock"

python3.12 -m venv "$venv"
"$venv/bin/python" -m pip -qq --disable-pip-version-check install --no-deps --require-hashes -r "$scratch/uv.lock"
# A read-only image cannot keep bytecode, so all of it is compiled now.
"$venv/bin/python" -m uv pip sync --quiet --python "$venv/bin/python" --require-hashes --compile-bytecode \
    --build-constraints "$lock" "$wanted"
