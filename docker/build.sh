#!/usr/bin/env bash
#
# Builds the image with docker, podman or buildah, whichever is there:
#
#   docker/build.sh [--light] [options of the builder]
#
# TAG names the image (default: ledger_lab), BUILDER the program. --light installs only what the reports need:
# no simulator, no OpenGL, no kernels. Examples of options: --build-arg BASE=..., --build-arg KERNELS=LedgerLab-Ant,
# --secret id=ca,src=/etc/ssl/certs/ca-certificates.crt.

set -euo pipefail
cd -- "$(dirname -- "$(readlink -f -- "${BASH_SOURCE[0]}")")/.."

die() {
    printf 'docker/build.sh: %s\n' "$*" >&2
    exit 2
}

builder=${BUILDER:-}
for candidate in docker podman buildah; do
    [[ -n $builder ]] || ! type -P "$candidate" >/dev/null || builder=$candidate
done
[[ -n $builder ]] || die "found neither docker nor podman nor buildah: install one of them"

version=$(sed -n 's/^version = "\([^"]*\)".*/\1/p' pyproject.toml)
# As meters/revision.py reads them where git is.
revision=unknown changes=
if commit=$(git rev-parse HEAD 2>/dev/null); then
    revision=$commit
    [[ -z $(git status --porcelain) ]] || changes=$({ git diff HEAD && git status --porcelain; } | sha256sum)
fi
lock=$(sha256sum tools/requirements/main.lock)

light=()
tag=${TAG:-ledger_lab}
if [[ ${1:-} == --light ]]; then
    shift
    light=(--build-arg "SECTIONS=Measuring Building" --build-arg WITHOUT= --build-arg SYSTEM_PACKAGES= --build-arg KERNELS=)
    tag=${TAG:-ledger_lab:light}
fi

case ${builder##*/} in
    docker) build=(build) ;;
    podman) build=(build --format docker --layers) ;;
    buildah) build=(bud --isolation chroot --format docker --layers) ;;
    *) die "BUILDER=$builder is none of docker, podman and buildah" ;;
esac
DOCKER_BUILDKIT=1 exec "$builder" "${build[@]}" --file docker/Dockerfile --tag "$tag" --build-arg "VERSION=$version" \
    --build-arg "REVISION=$revision" --build-arg "CHANGES_SHA256=${changes%% *}" \
    --build-arg "LOCK_SHA256=${lock%% *}" "${light[@]}" "$@" .
