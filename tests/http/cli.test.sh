#!/bin/bash
# The program from outside: a node, the verbs, their exit codes.
set -u
caravan=$1
folder=$(mktemp -d)
node=
export NO_COLOR=1
unset CARAVAN_NODE CARAVAN_TOKEN
trap '[ -n "$node" ] && kill -9 "$node" 2>/dev/null; rm -rf "$folder"' EXIT
cd "$folder" || exit 1

failures=0
checks=0
fail() { echo "FAILED: $*"; failures=$((failures + 1)); }
# expect CODE PATTERN VERB...: exit code, and an extended regular expression in what is printed.
expect() {
  local code=$1 pattern=$2 out rc
  shift 2
  checks=$((checks + 1))
  out=$(timeout 60 "$caravan" "$@" 2>&1 </dev/null); rc=$?
  [ "$rc" = "$code" ] || fail "$*: exit code $rc instead of $code: $out"
  printf '%s' "$out" | grep -Eq -- "$pattern" || fail "$*: no /$pattern/ in: $out"
}
start() {
  rm -f port
  "$caravan" node --http 127.0.0.1:0 --port-file port "$@" >node.out 2>node.err &
  node=$!
  for _ in $(seq 200); do [ -s port ] && break; sleep 0.05; done
  [ -s port ] || { fail "the node did not start: $(cat node.out node.err)"; exit 1; }
  export CARAVAN_NODE=http://127.0.0.1:$(cat port)
}
# Stops it and checks that it ends well within 5 s.
finish() {
  local begin=$SECONDS rc
  kill -TERM "$node"; wait "$node"; rc=$?
  checks=$((checks + 1))
  [ "$rc" = 0 ] || fail "SIGTERM: exit code $rc: $(cat node.err)"
  [ $((SECONDS - begin)) -le 5 ] || fail "SIGTERM: took $((SECONDS - begin)) s"
  node=
}

expect 3 'no node answers at http://127.0.0.1:9' queue ls --node http://127.0.0.1:9
expect 2 'Usage|required|Run with' queue
expect 2 'not expected' queue ls --nonsense
expect 0 '^caravan [0-9]+\.' version
expect 0 '"version"' version --json
expect 0 'queue ls' help
expect 0 'LENGTH' config explain queue.LENGTH
expect 1 'LENGTH' config explain LENGHT
expect 0 'no problems' config check
expect 0 'DATA_DIR' config show
expect 0 'complete -F _caravan caravan' completion bash
expect 0 '#compdef caravan' completion zsh
expect 2 'bash and zsh' completion fish
# What bash would offer.
offered() { bash -c 'caravan() { :; }; . /dev/stdin; COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); _caravan; echo "${COMPREPLY[@]}"' - "$@" < <("$caravan" completion bash); }
for line in 'caravan que:queue' 'caravan queue pau:pause' 'caravan queue pause --unt:--until' 'caravan push --del:--delay'; do
  checks=$((checks + 1))
  # shellcheck disable=SC2086
  [ "$(offered ${line%:*})" = "${line#*:}" ] || fail "completion of ${line%:*}: $(offered ${line%:*})"
done
expect 2 'cannot be read|does not exist|no such|not found|there is no' config check --config missing.ini
printf '[http]\nADDR = 0.0.0.0:0\n[queue.mail]\nLENGTH = abc\n' >bad.ini
expect 1 'bad.ini:4: error: \[queue.mail\] LENGTH' config check --config bad.ini
expect 2 'bad.ini:4: error: \[queue.mail\] LENGTH' node --config bad.ini
expect 2 'bad.ini:2: error: \[http\] ADDR' node --config bad.ini
expect 2 'missing.ini' node --config missing.ini
printf '[queue.mail]\nHANDLER = exec:cat | wc\n' >pipe.ini
expect 1 'pipe.ini:2: error: \[queue.mail\] HANDLER' config check --config pipe.ini
expect 2 'pipe.ini:2: error: \[queue.mail\] HANDLER' node --config pipe.ini
expect 1 'no/such/folder/port: cannot be written' node --data-dir other --http 127.0.0.1:0 --port-file no/such/folder/port

start --data-dir data
grep -q "serves http://127.0.0.1:$(cat port)" node.out || fail "no line with the URL: $(cat node.out)"
expect 1 "data folder .*/data is in use by the node with process id $node" node --data-dir data --http 127.0.0.1:0
expect 1 "$(cat port)" node --data-dir other --http "127.0.0.1:$(cat port)"
expect 0 '^mail\.[0-9a-z]{13}$' push mail '{"to":"ann@example.org"}'
expect 0 '^2$' push mail --quiet '[1,2]' '"x"'
expect 0 '"pushed": 1' push mail --json --delay 1h 7
expect 1 'delay' push mail 1 --delay=-5s
expect 1 'delay' push mail 1 --delay soon
expect 2 'max-attempts' push mail 1 --max-attempts few
expect 2 'name=value' push mail 1 --header nothing
expect 2 'give payloads' push mail
expect 2 'cannot be read' push mail --file missing
expect 1 'payload 1: .*parse error' push mail '{bad'
expect 0 '^mail\.' push mail -- -5
expect 0 'mail +level +running +4 +0 +1 ' queue ls
expect 0 '"waiting": 4' queue inspect mail --json
expect 0 'oldest_waiting +20' queue inspect mail
expect 1 'did you mean "mail"' queue inspect mial
expect 0 '\{"to":"ann@example.org"\}' job ls mail
expect 0 '"payload": 7' job ls mail --state delayed --json
expect 1 '\?state=' job ls mail --state gone

expect 0 'default +memory +not used yet' cache ls
expect 1 'nothing under this key' cache get default user:7
expect 0 'it was not there' cache del default user:7
expect 0 'default: cleared' cache clear default
expect 0 'entries +0' cache stats default
expect 1 'no cache "other"' cache clear other

expect 0 '^NAME' limit ls
expect 1 'no limit "sms"' limit top sms
expect 1 'no limit "sms"' limit reset sms ann
expect 1 'no limit "sms"' limit set sms 5
expect 2 'no whole number' limit set sms five

# The same key twice stores once and answers with the same id.
first=$("$caravan" push once --idempotency-key k1 1)
second=$("$caravan" push once --idempotency-key k1 1)
checks=$((checks + 1))
[ -n "$first" ] && [ "$first" = "$second" ] || fail "idempotency: $first, $second"
expect 0 '"waiting": 1' queue inspect once --json

# A file with bad lines: they are named, the others are pushed.
{ seq 1 1200; echo '{bad'; echo; printf '"\xff"\n'; seq 1 3; } >items
expect 1 'line 1201: ' push bulk --file items --quiet
expect 0 '"waiting": 1203' queue inspect bulk --json
out=$(seq 1 10 | "$caravan" push bulk --file - --quiet)
[ "$out" = 10 ] || fail "standard input: $out"
# One item is too large: only that one is refused.
{ echo 1; head -c 1500000 /dev/zero | tr '\0' '1' | sed 's/^/"/;s/$/"/'; echo; echo 2; } >large
expect 1 'line 2: .*MAX_ITEM_SIZE' push large --file large --quiet
expect 0 '"waiting": 2' queue inspect large --json

job=$("$caravan" push mail --delay 1h '{"late":true}' --header a=b --header 'c=d e')
expect 0 '"c":"d e"' job show "$job"
expect 0 '"state": "delayed"' job show "$job" --json
expect 0 'waits again' job retry "$job"
expect 0 '"state": "waiting"' job show "$job" --json
expect 0 'deleted' job delete "$job"
expect 0 '"state": "removed"' job show "$job" --json
expect 1 'is no job' job show nonsense

expect 0 'mail: paused until 20' queue pause mail --for 10m
expect 0 'paused_by +127.0.0.1' queue inspect mail
expect 1 'ends before it begins' queue pause mail --until 2020-01-01T00:00:00Z
expect 2 'not both' queue pause mail --until 2020-01-01T00:00:00Z --for 1m
expect 0 'mail: running' queue resume mail
expect 1 'no handler' queue scale mail --max-workers 3
expect 2 'whole number' queue scale mail --max-workers many
expect 1 'mail' queue flush mail --timeout 200ms
expect 2 'timeout' queue flush mail --timeout=-1s
expect 0 'draining' queue drain mail
expect 0 'running' queue resume mail
expect 2 '--yes' queue purge mail --state waiting
expect 1 'state' queue purge mail --state gone --yes
expect 0 'mail: would forget 4 waiting items' queue purge mail --state waiting --dry-run
expect 0 '"would_purge": 4' queue purge mail --state waiting --dry-run --json
expect 2 'waiting, delayed and dead' queue purge mail --state gone --dry-run
expect 0 'CARAVAN OK - nothing is wrong \| .*.mail waiting.=4' check
expect 1 'CARAVAN WARNING - mail: waiting 4 ' check --queue mail --warn-waiting 3 --critical-waiting 4
expect 2 'CARAVAN CRITICAL - mail: waiting 4 ' check --queue mail --critical-waiting 3
expect 2 'CRITICAL - there is no queue "mial"' check --queue mial
expect 2 'CRITICAL - 1 nodes are up, not 2' check --nodes 2
expect 2 'CRITICAL - no node answers' check --node http://127.0.0.1:9
expect 2 'whole number' check --warn-dead few
expect 0 '"verdict": "OK"' check --json
expect 0 'mail +running .* 4 +0 +1 ' top --once
expect 0 '"queues"' top --once --json
expect 2 '200ms' top --every 1ms
# A watch goes on until it is told to stop.
checks=$((checks + 1))
timeout --preserve-status -s INT 3 "$caravan" queue ls --watch >watched 2>&1 || fail "watch: exit code $?: $(cat watched)"
[ "$(grep -c '^QUEUE' watched)" -ge 1 ] || fail "watch: $(cat watched)"
expect 0 'mail: 4 items forgotten' queue purge mail --state waiting --yes
expect 0 '"waiting": 0' queue inspect mail --json

finish
expect 3 'no node answers' queue ls

# What pushes made is there again after a restart.
start --data-dir data
expect 0 'bulk .* 1213 ' queue ls
expect 0 '"delayed": 1' queue inspect mail --json
expect 1 'begins with' event publish queue.paused
expect 2 'no JSON' event publish app.deploy '{version'
expect 0 'published' event publish app.deploy '{"version": 7}' --subject web
expect 0 'draft' event publish app.deploy --draft
expect 1 'no pattern' event tail --topic 'a b'
expect 2 'whole number' event tail --count 0
expect 0 '"drafts": 1' event ls --json
expect 0 'app.deploy +1' event ls
last=$("$caravan" event publish app.before && curl -s "$CARAVAN_NODE/v1/events/recent?topic=app.deploy" | sed 's/.*"id":"\([^"]*\)".*/\1/' | tail -n 1)
expect 0 'app.before' event tail --topic 'app.#' --after "${last##*$'\n'}" --count 1
finish

# Schedules need no node.
expect 0 '"at": "2026-11-01T01:30:00-04:00"' cron preview "30 1 * * *" --zone America/New_York --from 2026-10-31T12:00:00Z --json
expect 0 'second_pass' cron preview "30 1 * * *" --zone America/New_York --from 2026-10-31T12:00:00Z --json
expect 0 '2026-03-08T02:30:00 +skipped' cron preview "30 2 * * *" --zone America/New_York --from 2026-03-07T12:00:00Z
expect 0 'sixty runs a minute' cron preview "* * * * * *" --zone UTC
expect 0 '"at": "2104-02-29T00:00:00Z"' cron preview "0 0 29 2 *" --zone UTC --from 2096-03-01T00:00:00Z --count 1 --json
expect 1 'no such day in February' cron preview "0 0 30 2 *" --zone UTC
expect 2 'hour field' cron preview "0 24 * * *" --zone UTC
expect 2 'time zone "Mars/Base"' cron preview "0 2 * * *" --zone Mars/Base
expect 2 '1 to 1000' cron preview @daily --count 0

# Tokens: never printed, and the file may hold them.
printf '[node]\nAUTO_CREATE = true\nDATA_DIR = secured\n[http]\nADDR = 127.0.0.1:0\nADMIN_TOKEN = s3cret-admin\nREAD_TOKEN = s3cret-read\n' >tokens.ini
start --config tokens.ini
expect 1 'token' queue ls
expect 0 'QUEUE' queue ls --token s3cret-read
expect 1 'token' push mail 1 --token s3cret-read
CARAVAN_TOKEN=s3cret-admin expect 0 '^mail\.' push mail 1
expect 0 'mail' queue ls --config tokens.ini --node "$CARAVAN_NODE"
expect 0 'ADMIN_TOKEN = .?\*\*\*' config show --config tokens.ini
out=$("$caravan" queue ls --token s3cret-wrong 2>&1; "$caravan" config show --config tokens.ini; cat node.out node.err)
case $out in *s3cret*) fail "a token was printed: $out" ;; esac
finish

# A worker of its own: it handles, obeys, and ends when told to.
printf '[node]\nDATA_DIR = outside\n[http]\nADDR = 127.0.0.1:0\n[queue.mail]\nTYPE = channel\n' >outside.ini
start --config outside.ini
expect 2 'a worker needs --join' worker
expect 2 'is no address of a node' worker --join ftp://x --queue mail --handler exec:cat
expect 2 'is no handler' worker --join x:1 --queue mail --handler cat
expect 2 '1 to 10000' worker --join x:1 --queue mail --handler exec:cat --concurrency 0
expect 1 'told this node nothing of itself' worker quiet ann
"$caravan" worker --join "$CARAVAN_NODE" --queue mail --handler "exec:sh -c 'cat >> handled'" --name ann >worker.out 2>&1 &
worker=$!
expect 0 '^mail\.' push mail '"letter"'
for _ in $(seq 200); do grep -q letter handled 2>/dev/null && "$caravan" worker ls | grep -q '^ann' && break; sleep 0.05; done
expect 0 '^ann +worker .* mail .*:[0-9]+ +run' worker ls
expect 0 '"kind": "worker"' worker ls --json
expect 0 'handle 3 at once' worker scale ann 3
expect 0 'claim nothing more' worker quiet ann
expect 0 'is to stop' worker stop ann
checks=$((checks + 1))
wait "$worker" || fail "worker stop: exit code $?: $(cat worker.out)"
grep -q '1 handled' worker.out || fail "the worker's last line: $(cat worker.out)"
finish

# A handler is not asked twice for what it did, and a second signal ends at once.
printf '[node]\nDATA_DIR = slow\n[http]\nADDR = 127.0.0.1:0\n[queue.slow]\nHANDLER = exec:sleep 30\nSHUTDOWN_TIMEOUT = 20s\n' >slow.ini
start --config slow.ini
expect 0 '^slow\.' push slow 1
sleep 0.5
kill -TERM "$node"; sleep 0.3; kill -TERM "$node"
begin=$SECONDS; wait "$node"; rc=$?; node=
checks=$((checks + 1))
[ "$rc" = 1 ] && [ $((SECONDS - begin)) -le 3 ] || fail "second signal: exit code $rc after $((SECONDS - begin)) s"

echo "$checks checks, $failures failed"
[ "$failures" = 0 ]
