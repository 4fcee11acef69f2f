#!/bin/sh
#
# Prepares the environment, and replaces itself by the command. So signals reach the command, and the exit status of the
# container is that of the command.

. "${0%/*}/environment.sh"
exec "$@"
