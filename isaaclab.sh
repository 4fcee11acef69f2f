#!/usr/bin/env bash
#
# LedgerLab with the command line of Isaac Lab's own isaaclab.sh:
#
#   ./isaaclab.sh -p scripts/train.py ...    runs a script with the environment's Python
#   ./isaaclab.sh -p -m pytest               runs a module
#   ./isaaclab.sh <anything else>            goes to the `isaaclab` command line
#
# The environment is the first of
#   1. the Isaac Lab checkout in $ISAACLAB_PATH, through its own isaaclab.sh;
#   2. the active virtual or conda environment, if it holds Isaac Lab 3.0;
#   3. .venv beside this script, built on first use from tools/requirements/main.lock.
#
# Messages go to stderr; stdout belongs to the program that is run.

set -euo pipefail

root=$(dirname -- "$(readlink -f -- "${BASH_SOURCE[0]}")")
venv=$root/.venv
lock=tools/requirements/main.lock
stamp=$venv/.complete # written last: a .venv without it is unfinished and never trusted

say() { printf 'isaaclab.sh: %s\n' "$*" >&2; }

die() {
    trap - EXIT # this line says it all
    say "$*"
    exit 2
}

usage() {
    cat <<'END'
usage: ./isaaclab.sh -p [script.py | -m module | -c code] [arguments]
       ./isaaclab.sh [option of Isaac Lab's own command line]

Run Python with Isaac Lab and LedgerLab, or call Isaac Lab's own command line.

  -p, --python   run Python in the environment; its exit status is passed on, and signals reach it
  -h, --help     show this help, and Isaac Lab's help if the environment is ready

The environment is that of the checkout $ISAACLAB_PATH, if this variable is set. Otherwise, it is the
active environment, if that has Isaac Lab 3.0. Otherwise, it is .venv beside this script, which is
built on first use from tools/requirements/main.lock.

example:
  ./isaaclab.sh -p scripts/train.py --help

END
}

# Does the environment $1 hold Isaac Lab 3.0 (0), also without LedgerLab (4), or not (anything else)?
# Packages say 3.0.x; a source checkout of Isaac Lab 3.0 installs the same code as 28.0.x.
probe() {
    "$1/bin/python" -P -c '
from importlib.metadata import distributions
if not any(found.version.startswith(("3.0.", "28.0.")) for found in distributions(name="isaaclab")):
    raise SystemExit(3)
raise SystemExit(0 if any(distributions(name="ledger_lab")) else 4)
' </dev/null >/dev/null 2>&1
}

# What .venv depends on. The location counts because console scripts and the editable install contain it; of
# pyproject.toml, what comes before the settings of tools.
fingerprint() {
    printf '%s\n' "$root" && cd -- "$root" && sha256sum "$lock" && awk '/^\[tool\.ruff/ { exit } 1' pyproject.toml | sha256sum
}

ready() { [[ -x $venv/bin/python && -f $stamp && $(<"$stamp") == "$(fingerprint)" ]]; }

# Print places where a Python 3.12 may be, one a line; places that are quick to check come first. None has to exist.
python_candidates() {
    type -aP python3.12 python3 python || true
    printf '%s\n' "${PYENV_ROOT:-${HOME:-}/.pyenv}"/versions/3.12.*/bin/python
    local base
    for base in "${CONDA_PREFIX:-}" "${HOME:-}"/{miniconda3,miniforge3,anaconda3} "$(conda info --base 2>/dev/null)"; do
        printf '%s\n' "$base"/bin/python3.12 "$base"/envs/*/bin/python3.12
    done
    uv python find --system 3.12 2>/dev/null || true
}

# Runs a command that begins with a Python 3 without the user's settings of pip and uv, but with their indexes,
# certificates and proxy: other settings, such as a target or a constraint, would install something else, or elsewhere.
isolated() {
    local settings
    mapfile -d '' -t settings < <("$1" -I tools/install_settings.py)
    [[ ${settings[*]} ]] || die "the settings of pip or uv cannot be read"
    env "${settings[@]}" "$@"
}

# Installs the uv of the lock into the environment $1, which has pip.
install_uv() {
    awk '/^uv==/ { entry = 1 } entry { print; if (!/\\$/) exit }' "$lock" >"$1/uv.lock"
    isolated "$1/bin/python" -m pip -qq --disable-pip-version-check install --no-deps --require-hashes -r "$1/uv.lock"
}

# Prints the first candidate that really runs (shims of version managers may not), is 3.12 and can create environments.
find_python() {
    local candidate
    while read -r candidate; do
        "$candidate" -I -c '
import ensurepip, os, sys, venv
if sys.version_info[:2] == (3, 12):
    print(os.path.realpath(sys.executable))
else:
    raise SystemExit(1)
' </dev/null 2>/dev/null && return
    done < <(python_candidates)
    return 1
}

# Lets uv install a Python 3.12 below the user's home, and sets base to it. Takes the uv on PATH, else the one of
# the lock, which any other Python 3 can run.
fetch_python() {
    local uv=(uv) other said
    local missing="no Python 3.12 with venv found on PATH or in pyenv, conda or uv" way_out="install one (for example \
'pyenv install 3.12', or Debian's python3.12 and python3.12-venv) or set ISAACLAB_PATH"
    if ! type -P uv >/dev/null; then
        rm -rf -- "$venv.uv" # if it is a link, others may have put it there
        other=$(type -P python3 || type -P python) &&
            "$other" -m venv --clear "$venv.uv" >/dev/null 2>&1 && install_uv "$venv.uv" >/dev/null 2>&1 ||
            die "$missing, and there is no uv to download it: $way_out"
        uv=("$venv.uv/bin/python" -m uv)
    fi
    say "$missing: uv installs Python 3.12 below your home (about 30 MB to download)"
    said=$("${uv[@]}" python install 3.12 2>&1) || {
        read -r said <<<"${said##*$'\n'}" # without the indentation of a cause
        die "uv cannot download Python 3.12 ($said): $way_out"
    }
    base=$(UV_PYTHON_PREFERENCE=only-managed "${uv[@]}" python find 3.12)
    rm -rf -- "$venv.uv"
}

# Imports with the Python $1 what trainings import, which keeps the compiled modules beside their sources. uv installs
# sources only, and where PYTHONDONTWRITEBYTECODE is set, as many images have it, each start would compile them again.
compile_modules() {
    env -u PYTHONDONTWRITEBYTECODE "$1" -W ignore tools/import_modules.py </dev/null >/dev/null 2>&1
}

# Builds .venv, or brings a complete one up to date. Runs in $root.
build() {
    local python=$venv/bin/python base cache quiet=() sync
    [[ -t 2 ]] || quiet=(--quiet)
    sync=(isolated "$python" -m uv "${quiet[@]}" pip sync --python "$python"
        --require-hashes --build-constraints "$lock" "$lock")

    if [[ ! -x $python || ! -f $stamp || $(head -n 1 "$stamp") != "$root" ]]; then
        [[ ! -L $venv ]] || die "$venv is a link, so its environment was built for another folder: remove the link"
        base=$(find_python) || fetch_python
        say "[1/5] creating $venv with $base (about 10 s)"
        "$base" -m venv --clear "$venv"
        say "[2/5] installing uv, the installer (about 10 s)"
        install_uv "$venv"
    elif ! grep -qxF -- "$(sha256sum "$lock")" "$stamp"; then
        say "$lock has changed"
        "${sync[@]}" --dry-run --quiet # a failure here, for example offline, leaves the environment unchanged
        rm -f -- "$stamp"
    fi

    if [[ ! -f $stamp ]]; then
        say "[3/5] installing the packages of $lock (8 GB; about 1 minute, plus the download when not cached)"
        if [[ -z ${UV_LINK_MODE:-} ]]; then
            cache=$(isolated "$python" -m uv cache dir)
            mkdir -p -- "$cache"
            # uv cannot make hard links across file systems; this setting avoids its warning.
            [[ $(stat -c %d -- "$cache") == $(stat -c %d -- "$venv") ]] || export UV_LINK_MODE=copy
        fi
        "${sync[@]}"
    fi
    say "[4/5] installing ledger_lab from $root (about 5 s)"
    isolated "$python" -m uv "${quiet[@]}" pip install --python "$python" --no-deps --no-build-isolation --editable .
    say "[5/5] compiling the Python modules of a training (about 30 s)"
    compile_modules "$python" || say "they could not be compiled; programs start more slowly"
    fingerprint >"$stamp.new"
    mv -- "$stamp.new" "$stamp"
    say "installed in $(printf '%d:%02d' $((SECONDS / 60)) $((SECONDS % 60))), once; the clock of the run starts now"
}

# Runs build for one caller at a time; the others wait, and then have nothing left to do.
build_locked() (
    trap '(($? == 0)) || say "the environment is not ready; the next call starts it again"' EXIT
    command -v flock >/dev/null || die "building .venv needs flock: install util-linux"
    [[ ! -L $venv.lock ]] || die "$venv.lock is a link, and must be a file: remove it"
    exec 9>>"$venv.lock"
    flock --nonblock 9 || {
        say "waiting for another call that is building $venv"
        flock 9
    }
    cd -- "$root"
    ready || build
)

help_wanted=
if (($# == 0)) || [[ $1 == -h || $1 == --help ]]; then
    help_wanted=1
    usage
fi

if [[ -n ${ISAACLAB_PATH:-} ]]; then
    [[ -f $ISAACLAB_PATH/isaaclab.sh && ! $ISAACLAB_PATH -ef $root ]] ||
        die "ISAACLAB_PATH=$ISAACLAB_PATH is not a checkout of Isaac Lab (it has no isaaclab.sh of its own): correct or unset it"
    exec bash "$ISAACLAB_PATH/isaaclab.sh" "$@"
fi

prefix=
for active in "${VIRTUAL_ENV:-}" "${CONDA_PREFIX:-}"; do
    [[ -n $active && ! $active -ef $venv ]] || continue
    status=0
    probe "$active" || status=$?
    if ((status == 4)); then
        die "the environment $active has no ledger_lab; run: $active/bin/python -m pip install -e ${root@Q}"
    elif ((status == 0)); then
        prefix=$active
        break
    fi
done

if [[ -z $prefix ]]; then
    prefix=$venv
    if ! ready; then
        [[ -z $help_wanted ]] || exit 0
        build_locked </dev/null >&2
    fi
    export VIRTUAL_ENV=$venv
fi
[[ $PATH == "$prefix/bin:"* ]] || export PATH=$prefix/bin:$PATH
# OpenMP threads that wait for work sleep instead of spinning: beside any other busy process, spinning makes the updates of
# small networks on a CPU about ten times slower.
export OMP_WAIT_POLICY=${OMP_WAIT_POLICY:-PASSIVE}
unset PYTHONHOME

# The shell is replaced, not kept as a parent: a SIGTERM or Ctrl-C reaches the program, and its status is ours.
case ${1:-} in
    -p | --python) exec "$prefix/bin/python" "${@:2}" ;;
    *) exec "$prefix/bin/python" -m isaaclab "$@" ;;
esac
