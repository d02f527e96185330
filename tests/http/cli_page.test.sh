#!/bin/sh
# docs/cli.md is what `caravan help --markdown` prints.
"$1" help --markdown | diff -u "$2" - || { echo "run: $1 help --markdown > $2"; exit 1; }
