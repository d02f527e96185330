#!/bin/sh
# The examples on a real node: jobs are pushed and handled, a failed one is tried again later, SIGTERM ends the worker.
set -eu
caravan=$1
here=$(CDPATH='' cd -- "$(dirname -- "$0")" && pwd)
work=$(mktemp -d)
node='' worker=''
trap 'kill $worker $node 2>/dev/null || true; wait; rm -rf "$work"' EXIT
fail() { echo "FAILED: $*"; cat "$work"/*.log; exit 1; }

printf '[queue.numbers]\nTYPE = channel\n' > "$work/node.ini"
"$caravan" node --config "$work/node.ini" --data-dir "$work/data" --http 127.0.0.1:0 --port-file "$work/port" > "$work/node.log" 2>&1 &
node=$!
for _ in $(seq 300); do [ -s "$work/port" ] && break; sleep 0.1; done
[ -s "$work/port" ] || fail "the node does not come up"
CARAVAN_NODE="127.0.0.1:$(cat "$work/port")"
export CARAVAN_NODE

seq 200 | "$here/push.py" --queue numbers - > "$work/ids"
"$here/push.py" --queue numbers '{"fail": "no luck"}' '{"sleep": 1}' >> "$work/ids"
[ "$(wc -l < "$work/ids")" = 202 ] || fail "202 ids were expected"
"$here/worker.py" --queue numbers --concurrency 4 --lease 1 > "$work/handled" 2> "$work/worker.log" &
worker=$!
for _ in $(seq 300); do [ "$(wc -l < "$work/handled")" -ge 201 ] && break; sleep 0.1; done
seq 200 | sort > "$work/wanted"
grep -v sleep "$work/handled" | sort > "$work/got"
cmp "$work/wanted" "$work/got" || { diff "$work/wanted" "$work/got" | head; fail "each number once was expected"; }
"$caravan" queue ls --json | grep -q '"delayed": 1' || fail "the failed job is not kept for later"

kill "$worker"
wait "$worker" || fail "the worker does not end with 0"
worker=''
echo "200 numbers handled once each; the failed job comes again later; the worker ended when asked to"
