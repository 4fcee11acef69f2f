# Finds a writable home, and fills its kernel cache from the image. Any POSIX shell can source this file: the entrypoint
# does, and Apptainer before each command.

# Is $1 an absolute path of a folder that this user can write?
usable() {
    case $1 in /*) [ -d "$1" ] && [ -w "$1" ] && [ -x "$1" ] ;; *) false ;; esac
}

# Put what the cache $2 lacks of $1 into it. Folders appear complete, so other processes may use the cache meanwhile.
seed() {
    mkdir -p "$2" || return
    for module in "$1"/*/; do
        module=${module%/}
        [ -d "$module" ] && [ ! -e "$2/${module##*/}" ] || continue
        scratch=$(mktemp -d "$2/.seed-XXXXXX") || return
        cp -R "$module" "$scratch/" && mv -T "$scratch/${module##*/}" "$2/${module##*/}" 2>/dev/null
        rm -rf "$scratch"
    done
}

if ! usable "${HOME:-}"; then
    unwritable=${HOME:-}
    HOME=${TMPDIR:-/tmp}/ledger_lab-home-$(id -u)
    mkdir -m 700 "$HOME" 2>/dev/null
    if ! { usable "$HOME" && [ -O "$HOME" ] && [ ! -L "$HOME" ]; }; then
        HOME=$(mktemp -d "${TMPDIR:-/tmp}/ledger_lab-home-XXXXXX" 2>/dev/null) || {
            echo "ledger_lab: neither HOME (${unwritable:-unset}) nor ${TMPDIR:-/tmp} is a writable folder:" \
                "mount one of them, for example with --tmpfs /tmp" >&2
            exit 2
        }
    fi
    [ -z "$unwritable" ] || echo "ledger_lab: $unwritable is not a writable folder; caches go to $HOME" >&2
    export HOME
fi
# Python asks for the name of the user, which a user that the image does not know has not.
id -un >/dev/null 2>&1 || export USER="${USER:-$(id -u)}"
for name in XDG_CACHE_HOME XDG_CONFIG_HOME XDG_DATA_HOME; do
    eval "value=\${$name:-}"
    [ -z "$value" ] || usable "$value" || unset "$name"
done
export WARP_CACHE_PATH="${WARP_CACHE_PATH:-${XDG_CACHE_HOME:-$HOME/.cache}/warp}"
for version in "${LEDGER_LAB_KERNELS:-/opt/kernels}"/*/; do
    version=${version%/}
    [ ! -d "$version" ] || seed "$version" "$WARP_CACHE_PATH/${version##*/}" ||
        echo "ledger_lab: the kernel cache $WARP_CACHE_PATH cannot be filled; kernels are compiled again" >&2
done
export VIRTUAL_ENV="${LEDGER_LAB_VENV:-/opt/venv}"
unset unwritable name value module scratch version
