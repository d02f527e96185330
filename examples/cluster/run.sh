#!/bin/sh
# Three nodes and a Redis of their own on this machine: jobs go in through all of them and are handled by all of them; then the node that
# owns the queue is killed, and another takes over. Needs redis-server and a built caravan (../../run.sh builds it). Leaves nothing behind.
set -eu
here=$(CDPATH='' cd -- "$(dirname -- "$0")" && pwd)
caravan=${CARAVAN:-$here/../../build/caravan}
[ -x "$caravan" ] || { echo "$caravan is not there: run ../../run.sh first, or set CARAVAN" >&2; exit 1; }
command -v redis-server >/dev/null || { echo "redis-server is not installed (Debian: redis-server)" >&2; exit 1; }

work=$(mktemp -d)
pids=
stop() {
  # shellcheck disable=SC2086
  [ -z "$pids" ] || kill $pids 2>/dev/null || true
  wait 2>/dev/null || true
  rm -rf "$work"
}
trap stop EXIT
trap 'exit 1' INT TERM
cp "$here"/*.ini "$here"/handle.sh "$work"
cd "$work"

redis-server --port 7180 --bind 127.0.0.1 --appendonly yes --save '' --dir "$work" >redis.log &
pids="$pids $!"
for node in earth mars venus; do
  "$caravan" node --config $node.ini >$node.log 2>&1 &
  pids="$pids $!"
  eval "$node=$!"
done
port() { case $1 in earth) echo 7181 ;; mars) echo 7182 ;; venus) echo 7183 ;; esac; }
ready() { curl -fs "http://127.0.0.1:$(port "$1")/readyz" >/dev/null 2>&1; }
owner() { curl -fs "http://127.0.0.1:$(port "$1")/v1/queues/sums" | sed -n 's/.*"owner":"\([^"]*\)".*/\1/p'; }
handled() { sort -u -k2 handled.txt 2>/dev/null | wc -l; }
await() { # WHAT COMMAND: at most 20 s
  what=$1
  shift
  n=0
  until "$@"; do
    n=$((n + 1))
    [ $n -lt 200 ] || { echo "gave up waiting for: $what" >&2; tail -n 5 ./*.log >&2; exit 1; }
    sleep 0.1
  done
}
all_handled() { [ "$(handled)" -ge "$1" ]; }
push() { # NODE FROM COUNT
  i=0
  body=
  while [ $i -lt "$3" ]; do
    body="$body{\"payload\":$(($2 + i))}
"
    i=$((i + 1))
  done
  printf '%s' "$body" | curl -fs -H 'Content-Type: application/x-ndjson' --data-binary @- "http://127.0.0.1:$(port "$1")/v1/queues/sums/jobs" >/dev/null
}

for node in earth mars venus; do await "$node" ready $node; done
first=$(owner earth)
echo "three nodes are up; \"$first\" owns the queue"
for node in earth mars venus; do push $node 0 300; done
await "900 jobs" all_handled 900
echo "900 jobs went in through all three and were handled by: $(cut -d' ' -f1 handled.txt | sort | uniq -c | awk '{printf "%s %s  ", $2, $1}')"

eval "kill -9 \$$first"
other=earth
[ "$first" != earth ] || other=mars
echo "killed \"$first\" (-9); 300 more jobs go in through \"$other\" at once"
push $other 900 300
await "1200 jobs" all_handled 1200
echo "all 1200 jobs are handled; \"$(owner $other)\" owns the queue now"
