#!/bin/sh
# Three nodes on three hosts of their own and Redis on a fourth, as network namespaces of this machine: TLS between the nodes, a move, a cable that is pulled, a node
# that is killed, strangers at the door. Needs root, iproute2, redis-server, openssl and a built caravan (../../run.sh builds it). Leaves nothing behind.
# Without the right to make namespaces it says so and ends with 77.
set -eu
here=$(CDPATH='' cd -- "$(dirname -- "$0")" && pwd)
caravan=${CARAVAN:-$here/../../build/caravan}
[ -x "$caravan" ] || { echo "$caravan is not there: run ../../run.sh first, or set CARAVAN" >&2; exit 1; }
for program in ip redis-server openssl curl; do
  command -v $program >/dev/null || { echo "$program is not installed (Debian: iproute2, redis-server, openssl, curl)" >&2; exit 1; }
done
tag=caravan$$
if ! ip netns add $tag-net 2>/dev/null; then
  echo "no right to make network namespaces here (needs root)" >&2
  exit 77
fi

work=$(mktemp -d)
pids=
stop() {
  # shellcheck disable=SC2086
  [ -z "$pids" ] || kill $pids 2>/dev/null || true
  wait 2>/dev/null || true
  for host in store earth mars venus net; do ip netns del $tag-$host 2>/dev/null || true; done
  rm -rf "$work"
}
trap stop EXIT
trap 'exit 1' INT TERM
cd "$work"

# A switch in a namespace of its own, and a cable from each host to it.
ip -n $tag-net link add switch type bridge
ip -n $tag-net link set switch up
address() { case $1 in earth) echo 10.77.0.2 ;; mars) echo 10.77.0.3 ;; venus) echo 10.77.0.4 ;; store) echo 10.77.0.9 ;; esac; }
for host in store earth mars venus; do
  ip netns add $tag-$host
  ip link add cable netns $tag-$host type veth peer name $host netns $tag-net
  ip -n $tag-net link set $host master switch up
  ip -n $tag-$host addr add "$(address $host)/24" dev cable
  ip -n $tag-$host link set cable up
  ip -n $tag-$host link set lo up
done
on() { # HOST COMMAND...
  host=$1
  shift
  ip netns exec $tag-$host "$@"
}
pull_cable() { ip -n $tag-net link set "$1" down; }
put_cable() { ip -n $tag-net link set "$1" up; }

"$here/make_certificates.sh" certificates earth=10.77.0.2 mars=10.77.0.3 venus=10.77.0.4 >/dev/null
"$here/make_certificates.sh" strangers earth >/dev/null
ip netns exec $tag-store redis-server --bind 10.77.0.9 --port 6379 --requirepass "opens the store" --appendonly yes --save '' --dir "$work" >redis.log &
pids="$pids $!"
cp "$here/handle.sh" .
start() { # NODE
  cat >"$1.ini" <<INI
[node]
NAME = $1
DATA_DIR = data/$1

[redis]
CONN_STR = redis://:opens%20the%20store@10.77.0.9:6379/0

[cluster]
ADDR = $(address "$1"):7190
NODES = earth, mars, venus
TLS_CERT = certificates/$1.pem
TLS_KEY = certificates/$1.key
TLS_CA = certificates/ca.pem
OWNER_LEASE = 3s

[queue.sums]
TYPE = redis
MAX_WORKERS = 2
LEASE = 3s
HANDLER = exec:sh handle.sh $1
INI
  ip netns exec "$tag-$1" "$caravan" node --config "$1.ini" >>"$1.log" 2>&1 &
  eval "$1=$!"
  pids="$pids $!"
}
for node in earth mars venus; do start $node; done

ask() { # NODE PATH
  on "$1" curl -fs "http://127.0.0.1:7171$2"
}
ready() { ask "$1" /readyz >/dev/null 2>&1; }
owner() { ask "$1" /v1/queues/sums | sed -n 's/.*"owner":"\([^"]*\)".*/\1/p'; }
handled() { sort -u -k2 handled.txt 2>/dev/null | wc -l; }
await() { # WHAT COMMAND: at most 30 s
  what=$1
  shift
  n=0
  until "$@"; do
    n=$((n + 1))
    [ $n -lt 300 ] || { echo "gave up waiting for: $what" >&2; tail -n 5 ./*.log >&2; exit 1; }
    sleep 0.1
  done
}
all_handled() { [ "$(handled)" -ge "$1" ]; }
owned_by() { [ "$(owner "$1")" = "$2" ]; }
owned_by_other() { now=$(owner "$1") && [ -n "$now" ] && [ "$now" != "$2" ]; }
next=0
push() { # NODE COUNT
  until=$((next + $2))
  while [ $next -lt $until ]; do
    echo "{\"payload\":$next}"
    next=$((next + 1))
  done | on "$1" curl -fs -H 'Content-Type: application/x-ndjson' --data-binary @- http://127.0.0.1:7171/v1/queues/sums/jobs >/dev/null
  next=$until
}
another() { # than NODE...
  for candidate in earth mars venus; do
    case " $* " in *" $candidate "*) ;; *) echo $candidate; return ;; esac
  done
}

for node in earth mars venus; do await "$node" ready $node; done
await "an owner" owned_by_other earth nobody
first=$(owner earth)
echo "three nodes on three hosts are up, with TLS; \"$first\" owns the queue"
for node in earth mars venus; do push $node 200; done
await "600 jobs" all_handled 600
echo "600 jobs went in through all three and were handled by: $(cut -d' ' -f1 handled.txt | sort | uniq -c | awk '{printf "%s %s  ", $2, $1}')"

for node in earth mars venus; do
  on store curl -s -m 2 "http://$(address $node):7190/" >/dev/null 2>&1 || true
  on store curl -sk -m 2 "https://$(address $node):7190/" >/dev/null 2>&1 || true
  head -c 100000 /dev/urandom | on store curl -s -m 2 "telnet://$(address $node):7190" >/dev/null 2>&1 || true
  on store openssl s_client -connect "$(address $node):7190" -cert strangers/earth.pem -key strangers/earth.key </dev/null >/dev/null 2>&1 || true
done
push "$first" 100
await "700 jobs" all_handled 700
echo "HTTP, noise and certificates of strangers came to the nodes' port; 100 more jobs went through all the same"

second=$(another "$first")
on "$first" "$caravan" queue move sums --to "$second" >/dev/null
push "$(another "$first" "$second")" 100
await "the move" owned_by "$second" "$second"
await "800 jobs" all_handled 800
echo "moved to \"$second\" by hand; $next jobs are handled"

pull_cable "$second"
push "$first" 100
await "another owner" owned_by_other "$first" "$second"
third=$(owner "$first")
await "900 jobs" all_handled 900
put_cable "$second"
await "\"$second\" to see who owns the queue" owned_by "$second" "$third"
push "$second" 100
await "1000 jobs" all_handled 1000
echo "the cable of \"$second\" was pulled: \"$third\" took over; the cable is in again, and $next jobs are handled"

eval "kill -9 \$$third"
push "$(another "$third")" 100
await "another owner" owned_by_other "$(another "$third")" "$third"
await "1100 jobs" all_handled 1100
again=$(($(wc -l <handled.txt) - $(handled)))
echo "killed \"$third\" (-9): \"$(owner "$(another "$third")")\" owns the queue; all $next jobs are handled, $again of them a second time"
