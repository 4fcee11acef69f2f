#!/usr/bin/env bash
#
# Installs packages of a lock file into a new virtual environment:
#
#   install_packages.sh REQUIREMENTS LOCK FOLDER SECTION...
#
# Installs what these sections of REQUIREMENTS need, except for the packages that WITHOUT names. Every package is checked
# by its hash, and the lock file by LOCK_SHA256, if that is known.

set -euo pipefail
requirements=$1 lock=$2 venv=$3
select=$(dirname -- "$(readlink -f -- "${BASH_SOURCE[0]}")")/select_packages.py
[[ ${LOCK_SHA256:-unknown} == unknown ]] || sha256sum --check --quiet <<<"$LOCK_SHA256  $lock"
scratch=$(mktemp -d)
trap 'rm -rf -- "$scratch"' EXIT

if [[ -s /run/secrets/ca.crt ]]; then
    export PIP_CERT=/run/secrets/ca.crt SSL_CERT_FILE=/run/secrets/ca.crt
fi
export PIP_CACHE_DIR=/var/cache/ledger_lab/pip UV_CACHE_DIR=/var/cache/ledger_lab/uv UV_LINK_MODE=copy

# shellcheck disable=SC2086 # a list of names
python3.12 "$select" "$requirements" "$lock" "${@:4}" --without ${WITHOUT:-} >"$scratch/packages.lock"
awk '/^[a-z0-9]/ { wanted = /^uv==/ } wanted' "$lock" >"$scratch/uv.lock"

python3.12 -m venv "$venv"
"$venv/bin/python" -m pip -qq --disable-pip-version-check install --no-deps --require-hashes -r "$scratch/uv.lock"
"$venv/bin/python" -m uv pip sync --quiet --python "$venv/bin/python" --require-hashes --build-constraints "$lock" \
    "$scratch/packages.lock"

# No program that runs in the image reads these: static libraries, tests of packages, headers and documentation of single
# ones. The headers of torch and triton stay; torch.compile includes them.
cd -- "$venv/lib/python3.12/site-packages"
find . -name '*.a' -delete
find . -type d -name tests -prune -exec rm -rf -- {} +
rm -rf -- cmeel.prefix/include ovphysx/docs
