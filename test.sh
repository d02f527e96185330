#!/bin/sh
# Installs what is missing, builds everything and runs all tests. Extra arguments go to ctest (-R queue_core, -L slow).
set -eu
root=$(CDPATH='' cd -- "$(dirname -- "$0")" && pwd)
cd "$root"
scripts/setup
cmake --preset release >build.log 2>&1 || { cat build.log >&2; exit 1; }
rm -f build.log
cmake --build --preset release
# Not side by side with each other on a machine of few cores: some of them drive whole nodes.
ctest --preset release -j "$(nproc)" "$@"
