#!/bin/sh
# The dashboard in headless Chromium, on the real program: run.sh CARAVAN FOLDER. Screenshots and logs stay in FOLDER.
# 77: skipped, since a program is missing or the library cannot be fetched.
set -eu
here=$(CDPATH='' cd -- "$(dirname -- "$0")" && pwd)
caravan=$1
folder=$2
skip() {
  echo "e2e: skipped: $1"
  exit 77
}
for program in node npm chromium redis-server; do
  command -v "$program" >/dev/null || skip "there is no $program; scripts/setup installs it"
done
mkdir -p "$folder"
cp "$here/package.json" "$here/package-lock.json" "$folder/"
if ! cmp -s "$here/package-lock.json" "$folder/fetched-lock.json"; then
  (cd "$folder" && timeout 120 npm ci --ignore-scripts --no-audit --no-fund --fetch-retries 1 --fetch-timeout 20000 >npm.log 2>&1) ||
    skip "npm cannot fetch playwright-core ($(tail -n 1 "$folder/npm.log")); see $folder/npm.log"
  cp "$here/package-lock.json" "$folder/fetched-lock.json"
fi
rm -rf "$folder/run" "$folder/screenshots"
# Modules are looked for beside the file that asks for them.
cp "$here"/*.mjs "$folder/"
cd "$folder"
exec node run.mjs "$caravan" "$folder"
