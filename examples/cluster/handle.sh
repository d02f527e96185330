#!/bin/sh
# Gets one JSON line for each item. Writes which node handled which job.
node=$1
sed -n 's/^{"id":"\([^"]*\)".*/'"$node"' \1/p' >>handled.txt
