"""The script of a node whose scheduler starts and ends a training as one program, such as a pod of Kubernetes.

Each start is a part of the job. The script passes SIGTERM on, and notes start, output and exit status beside the plan.
It is constant: all values are its arguments.
"""

from __future__ import annotations

from collections.abc import Mapping

from ledger_lab.errors import UserError

PART_SCRIPT = """\
umask o-w # what this script writes decides what the next part runs
folder=$1 engine=$2 index=$3 plan=$4 python=$5
if ! { cd "$folder" && echo >>"started/$index" && : >>"output/$index.log"; }; then
    echo "user $EUID can't write to $folder here: the machine that submits and the nodes must share this folder"
    exit 2
fi
echo "the output goes to $folder/output/$index.log"
rm -f "exits/$index"
mapfile -t starts <"started/$index"
export LEDGER_LAB_PARTS=${#starts[@]}

training=
asked=
pass_on() {
    asked=yes
    [[ -z $training ]] || kill -s TERM "$training" 2>/dev/null
}
trap pass_on TERM
"$python" -P -m ledger_lab.clusters.planned "$engine" "$folder" "$index" "$plan" >>"output/$index.log" 2>&1 &
training=$!
[[ -z $asked ]] || pass_on
wait "$training"
status=$?
while kill -0 "$training" 2>/dev/null; do # a signal has ended the wait, and not the training
    wait "$training"
    status=$?
done
wait "$training" 2>/dev/null # the status of a training that ended between the two commands
last=$?
((last == 127)) || status=$last
echo "$status" >"exits/$index"
exit "$status"
"""
"""Carries out one training of a plan, in bash. Its arguments are the folder of the submission, the engine, the index of
the training, the SHA-256 of the plan, and Python. It holds no ``$(`` and no ``$$``, which Kubernetes would replace."""

PART_VARIABLES = frozenset(
    ["asked", "engine", "folder", "index", "last", "plan", "python", "starts", "status", "training"]
)
"""Variables of :data:`PART_SCRIPT`."""
_PARTS = "LEDGER_LAB_PARTS"
"""Environment variable with the number of starts of the training, this one included."""


def earlier_parts(environ: Mapping[str, str]) -> int:
    """Return how often the training had been started before.

    Args:
        environ: The environment of the process.

    Raises:
        UserError: If :data:`PART_SCRIPT` has not started this process.
    """
    parts = environ.get(_PARTS, "")
    if not parts.isdecimal() or int(parts) < 1:
        raise UserError(f"{_PARTS} is {parts!r}: the script of the job starts this program")
    return int(parts) - 1
