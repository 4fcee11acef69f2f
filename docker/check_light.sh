#!/usr/bin/env bash
#
# Builds the light image with the steps of the whole one, and reads recorded runs in it as a user it does not know.
# Needs root, mmdebstrap and buildah; everything is removed at the end. PYTHON as in docker/debian_base.sh.

set -euo pipefail
cd -- "$(dirname -- "$(readlink -f -- "${BASH_SOURCE[0]}")")/.."
scratch=$(mktemp -d)
storage=(--root "$scratch/storage" --runroot "$scratch/run")
finish() {
    buildah "${storage[@]}" rm --all >/dev/null 2>&1 || true
    buildah "${storage[@]}" rmi --all --force >/dev/null 2>&1 || true
    rm -rf -- "$scratch"
}
trap finish EXIT

docker/debian_base.sh localhost/ledger_lab:base "${storage[@]}"
cat >"$scratch/buildah" <<END
#!/usr/bin/env bash
exec $(type -P buildah) ${storage[*]} "\$@"
END
chmod +x "$scratch/buildah"
secret=()
for file in "${SSL_CERT_FILE:-}" "${PIP_CERT:-}"; do
    [[ -z $file ]] || secret=(--secret "id=ca,src=$file")
done
BUILDER=$scratch/buildah TAG=localhost/ledger_lab:light docker/build.sh --light \
    --build-arg BASE=localhost/ledger_lab:base --layers=false --quiet "${secret[@]}" >/dev/null

container=$(buildah "${storage[@]}" from localhost/ledger_lab:light)
buildah "${storage[@]}" inspect --type image --format '{{range $name, $value := .OCIv1.Config.Labels}}{{$name}}={{$value}}
{{end}}' localhost/ledger_lab:light
# chroot isolation ignores the entrypoint, so it is named.
buildah "${storage[@]}" run --isolation chroot --user 4321:0 "$container" docker/entrypoint.sh sh -euc '
    id -u
    test ! -e .git -a ! -e tests
    test -w logs -a -w "$HOME" -a ! -w .
    exec python scripts/report.py --log_root records/cartpole-cpu'
