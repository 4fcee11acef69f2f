#!/bin/sh
#
# Prepares the environment, and becomes the command: signals reach it, and its exit status is the container's.

. "${0%/*}/environment.sh"
exec "$@"
