#!/usr/bin/env python3
"""Pushes jobs to a queue, with Python's standard library alone.

    push.py --node 127.0.0.1:7171 --queue mail '{"to": "ann@example.org"}' ...
    seq 1000 | push.py --queue numbers -          # a job a line

Each push has an idempotency key, so that one whose answer was lost may be said again and is stored once.
"""
import argparse
import http.client
import json
import os
import sys
import time
import urllib.error
import urllib.parse
import urllib.request
import uuid


def push(node, queue, payloads, token="", patience=30.0):
    """Stores all payloads or none; returns the node's answer."""
    key = uuid.uuid4().hex
    jobs = [{"payload": p, "idempotency_key": f"{key}.{i}"} for i, p in enumerate(payloads)]
    url = f"{node}/v1/queues/{urllib.parse.quote(queue, safe='')}/jobs"
    request = urllib.request.Request(url, json.dumps(jobs).encode(), {"Content-Type": "application/json"})
    if token:
        request.add_header("Authorization", "Bearer " + token)
    end = time.monotonic() + patience
    while True:
        try:
            with urllib.request.urlopen(request, timeout=patience) as answer:
                return json.load(answer)
        except urllib.error.HTTPError as e:
            # 429 and 503 say when to come again; 504 does not know whether it was stored.
            if e.code not in (429, 503, 504) or time.monotonic() > end:
                raise SystemExit(f"{e.code}: {json.load(e).get('detail', '')}")
            time.sleep(float(e.headers.get("Retry-After") or 1))
        except (OSError, ValueError, http.client.HTTPException) as e:  # also an answer that was cut off
            if time.monotonic() > end:
                raise SystemExit(f"no node answers at {node}: {e}")
            time.sleep(0.5)


def main():
    a = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    a.add_argument("--node", default=os.environ.get("CARAVAN_NODE", "http://127.0.0.1:7171"))
    a.add_argument("--queue", required=True)
    a.add_argument("payload", nargs="+", help="JSON; - reads one a line from standard input")
    given = a.parse_args()
    node = given.node if "://" in given.node else "http://" + given.node
    texts = list(sys.stdin) if given.payload == ["-"] else given.payload
    payloads = [json.loads(t) for t in texts]
    for at in range(0, len(payloads), 500):
        answer = push(node, given.queue, payloads[at:at + 500], os.environ.get("CARAVAN_TOKEN", ""))
        for job in answer["jobs"]:
            print(job.get("id") or job.get("holder"))


if __name__ == "__main__":
    main()
