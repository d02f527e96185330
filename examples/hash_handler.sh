#!/bin/sh
# A handler for HANDLER = exec:sh examples/hash_handler.sh: each item is the path of a file, its SHA-256 is appended to
# the file that CARAVAN_EXAMPLE_RESULTS names. JSON lines come in on standard input; nothing on standard output means
# that every item was handled.
set -eu
sums=$(sed -n 's/.*"payload":"\([^"]*\)".*/\1/p' | xargs -d '\n' sha256sum --)
# One write: lines of handlers that run side by side do not mix.
printf '%s\n' "$sums" >>"$CARAVAN_EXAMPLE_RESULTS"
