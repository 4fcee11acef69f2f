#!/usr/bin/env bash
#
# Makes a base image without an image registry: docker/debian_base.sh IMAGE [options of buildah]
#
# The base is a minimal Debian 12 from a mirror of its packages, with the Python 3.12 that PYTHON names (default:
# python3.12). Needs root, mmdebstrap and buildah.

set -euo pipefail
image=$1 buildah=(buildah "${@:2}")
# Libraries of the modules of the standard library.
libraries=ca-certificates,libbz2-1.0,libexpat1,libffi8,liblzma5,libncursesw6,libnsl2,libreadline8,libsqlite3-0,libssl3
libraries+=,libuuid1,zlib1g

prefix=$("${PYTHON:-python3.12}" -I -c 'import sys; print(sys.base_prefix)')
if [[ $prefix == /usr ]]; then
    echo "docker/debian_base.sh: the Python of $prefix cannot be copied: set PYTHON to one of pyenv or uv" >&2
    exit 2
fi
scratch=$(mktemp -d)
trap 'rm -rf -- "$scratch"' EXIT
chmod 755 "$scratch" # mmdebstrap downloads as another user

mmdebstrap --quiet --variant=minbase --include="$libraries" --aptopt='Acquire::Languages "none"' \
    --dpkgopt='path-exclude=/usr/share/doc/*' --dpkgopt='path-exclude=/usr/share/man/*' \
    --dpkgopt='path-exclude=/usr/share/locale/*' bookworm "$scratch/debian.tar"
tar -C "$prefix" --exclude='__pycache__' --exclude='./lib/python3.12/test' --exclude='site-packages/*' --exclude='*.a' \
    -cf "$scratch/python.tar" .
container=$("${buildah[@]}" from scratch)
"${buildah[@]}" add --quiet "$container" "$scratch/debian.tar" / >/dev/null
"${buildah[@]}" add --quiet "$container" "$scratch/python.tar" /usr/local >/dev/null
"${buildah[@]}" run --isolation chroot "$container" ldconfig
"${buildah[@]}" commit --quiet --rm --format docker "$container" "$image"
