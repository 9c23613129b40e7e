#!/bin/sh
# Hands over to the program of a command, ladder-<command> beside this script. `./ladder <command>` builds it.
here=${0%/*}
program="$here/ladder-${1:-}"
if [ -z "${1:-}" ] || [ ! -x "$program" ]; then
    echo "ladder: no program here for the command \"${1:-}\"; these are built:" >&2
    for built in "$here"/ladder-*[a-z]; do [ ! -x "$built" ] || echo "  ${built##*/ladder-}" >&2; done
    echo "./ladder --help names every command, and ./ladder COMMAND builds what it needs" >&2
    exit 2
fi
exec "$program" "$@"
