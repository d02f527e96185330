#!/bin/sh
# Installs what is missing, builds, and does real work on the embedded default: one job for every file under
# /usr/include, its SHA-256 by an executable, with the node killed (-9) in the middle. Prints a summary. On a terminal
# the node then stays up until Ctrl-C.
set -eu
root=$(CDPATH='' cd -- "$(dirname -- "$0")" && pwd)
cd "$root"
scripts/setup
mkdir -p build
cmake --preset release >build/configure.log 2>&1 || { cat build/configure.log >&2; exit 1; }
if [ -t 1 ]; then
  cmake --build --preset release --target caravan
else
  cmake --build --preset release --target caravan >build/build.log 2>&1 || { cat build/build.log >&2; exit 1; }
fi

caravan=$root/build/caravan
work=$root/build/run
rm -rf "$work"
mkdir -p "$work"
export CARAVAN_EXAMPLE_RESULTS="$work/sums"
: >"$CARAVAN_EXAMPLE_RESULTS"
find /usr/include -type f ! -name '*["\\]*' | sort >"$work/files"
sed 's/.*/"&"/' "$work/files" >"$work/jobs.jsonl"
jobs=$(wc -l <"$work/files")

# Port 0 means any free one; after the kill the node comes back on the same.
config() {
  cat >"$work/node.ini" <<INI
[node]
NAME = demo
DATA_DIR = $work/data
[http]
ADDR = 127.0.0.1:$1
[log]
LEVEL = warn
[queue.hash]
HANDLER = exec:sh $root/examples/hash_handler.sh
MAX_WORKERS = 2
BATCH_LENGTH = 20
LENGTH = 1000000
INI
}
start_node() {
  rm -f "$work/port"
  "$caravan" node --config "$work/node.ini" --port-file "$work/port" >>"$work/node.log" 2>&1 &
  node=$!
  until [ -s "$work/port" ]; do
    kill -0 "$node" 2>/dev/null || { cat "$work/node.log" >&2; exit 1; }
    sleep 0.05
  done
  port=$(cat "$work/port")
  export CARAVAN_NODE="http://127.0.0.1:$port"
}
node=
trap '[ -z "$node" ] || kill "$node" 2>/dev/null || true' EXIT
trap 'exit 130' INT TERM

config 0
start_node
echo "node up at $CARAVAN_NODE, data in $work/data"
begun=$(date +%s.%N)
"$caravan" push hash --file "$work/jobs.jsonl" --quiet
echo "pushed $jobs jobs; the handler is sha256sum"

# Killed when about a third is done: some batches are in a handler, most jobs wait.
until [ "$(wc -l <"$CARAVAN_EXAMPLE_RESULTS")" -ge $((jobs / 3)) ]; do sleep 0.02; done
kill -9 "$node"
wait "$node" 2>/dev/null || true
before=$(wc -l <"$CARAVAN_EXAMPLE_RESULTS")
echo "killed the node (-9) after $before results; starting it again"
config "$port"
start_node
"$caravan" queue flush hash --timeout 10m >/dev/null
ended=$(date +%s.%N)

LC_ALL=C sort -u "$CARAVAN_EXAMPLE_RESULTS" >"$work/got"
tr '\n' '\0' <"$work/files" | xargs -0 sha256sum -- | LC_ALL=C sort >"$work/expected"
total=$(wc -l <"$CARAVAN_EXAMPLE_RESULTS")
distinct=$(wc -l <"$work/got")
echo
echo "jobs          $jobs"
echo "results       $distinct different, $total in all"
echo "redeliveries  $((total - distinct)) (jobs that were in a handler when the node was killed)"
echo "rate          $(awk -v a="$begun" -v b="$ended" -v n="$jobs" 'BEGIN { printf "%.0f jobs/s, the restart included", n / (b - a) }')"
if cmp -s "$work/got" "$work/expected"; then
  echo "check         every file once, every sum as sha256sum computes it"
else
  echo "check         FAILED: results differ from sha256sum:"
  diff "$work/got" "$work/expected" | head
  exit 1
fi
echo "HTTP API      $CARAVAN_NODE (dashboard at $CARAVAN_NODE/ui/)"

if [ -t 1 ]; then
  echo "the node stays up; Ctrl-C stops it"
  wait "$node"
else
  kill "$node"
  wait "$node"
fi
node=
