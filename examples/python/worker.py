#!/usr/bin/env python3
"""Handles the jobs of a queue, with Python's standard library alone.

    worker.py --node 127.0.0.1:7171 --queue mail --concurrency 4

Put your own work into handle(). The rest shows what a worker has to do:

* claim no more than it can handle at once, and let the claim wait for jobs instead of asking again and again;
* extend the lease at a third of its time while handlers run, and stop what is done under a lease that is lost (409);
* say what became of each job; an answer that got lost may be said again, it counts once;
* wait as Retry-After says when it is told to (429, 503);
* on SIGTERM finish what runs, hand back what has not begun, and end.
"""
import argparse
import concurrent.futures
import http.client
import json
import os
import signal
import sys
import threading
import time
import urllib.error
import urllib.parse
import urllib.request


class LaterJob(Exception):
    """Not now: the job comes again after `delay`, and no attempt is counted."""

    def __init__(self, delay):
        super().__init__(delay)
        self.delay = delay


class RejectedJob(Exception):
    """Never again: the job is dead at once."""


class Lease:
    """What a claim gave. `lost` is set when others may have its jobs."""

    def __init__(self, name):
        self.name = name
        self.lost = threading.Event()


def handle(job, lease):
    """Your work. Returns: handled. Raises: LaterJob, RejectedJob, or anything else for a failed attempt."""
    payload = job["payload"]
    if isinstance(payload, dict) and "fail" in payload:
        raise RuntimeError(payload["fail"])
    if isinstance(payload, dict) and "sleep" in payload:
        if lease.lost.wait(payload["sleep"]):
            return  # others have it: nothing that is done from here on counts
    print(json.dumps(payload) + "\n", end="", flush=True)  # one write: lines of handlers beside each other stay whole


class Node:
    def __init__(self, url, token):
        self.url = url if "://" in url else "http://" + url
        self.token = token

    def post(self, path, body, timeout=30):
        """The status and the JSON of the answer, and how long to wait before the next try."""
        request = urllib.request.Request(self.url + path, json.dumps(body).encode(), {"Content-Type": "application/json"})
        if self.token:
            request.add_header("Authorization", "Bearer " + self.token)
        try:
            with urllib.request.urlopen(request, timeout=timeout) as answer:
                return answer.status, json.load(answer), 0
        except urllib.error.HTTPError as e:
            try:
                said = json.load(e)
            except ValueError:
                said = {}
            return e.code, said, float(e.headers.get("Retry-After") or 1)
        except (OSError, ValueError, http.client.HTTPException) as e:  # also an answer that was cut off
            return 0, {"detail": str(e)}, 1


class Worker:
    def __init__(self, node, given):
        self.node = node
        self.queue = urllib.parse.quote(given.queue, safe="")
        self.name = given.name
        self.lease_time = given.lease
        self.size = given.concurrency
        self.pool = concurrent.futures.ThreadPoolExecutor(given.concurrency)
        self.free = given.concurrency
        self.changed = threading.Condition()
        self.stop = threading.Event()

    def run(self):
        while not self.stop.is_set():
            with self.changed:
                self.changed.wait_for(lambda: self.free > 0 or self.stop.is_set())
                room = self.free
            if self.stop.is_set():
                break
            # A short wait, so that a SIGTERM is heard soon; the node answers as soon as there is a job.
            status, said, pause = self.node.post(
                f"/v1/queues/{self.queue}/claim",
                {"max": room, "wait": "5s", "lease": f"{self.lease_time}s", "worker": self.name})
            if status == 200:
                if said["jobs"]:
                    self.begin(Lease(said["lease"]), said["jobs"])
                continue
            if status not in (0, 429):
                print(f"worker: {status} {said.get('detail', '')}", file=sys.stderr)
            self.stop.wait(pause)
        self.pool.shutdown(wait=True)

    def begin(self, lease, jobs):
        if self.stop.is_set():
            self.node.post(f"/v1/leases/{lease.name}/release", {})
            return
        with self.changed:
            self.free -= len(jobs)
        done = [self.pool.submit(self.one, job, lease) for job in jobs]
        threading.Thread(target=self.keep, args=(lease, done), daemon=True).start()

    def keep(self, lease, done):
        """Extends the lease at a third of its time until all jobs are done, or it is lost."""
        ends = time.monotonic() + self.lease_time
        while concurrent.futures.wait(done, timeout=self.lease_time / 3).not_done:
            asked = time.monotonic()
            status, said, _ = self.node.post(f"/v1/leases/{lease.name}/extend", {}, timeout=self.lease_time / 3)
            if status == 200:
                ends = asked + self.lease_time
            elif status == 409 or time.monotonic() > ends:
                lease.lost.set()
                return

    def one(self, job, lease):
        report = {"id": job["id"], "outcome": "handled"}
        try:
            handle(job, lease)
        except LaterJob as e:
            report = {"id": job["id"], "outcome": "later", "delay": e.delay}
        except RejectedJob as e:
            report = {"id": job["id"], "outcome": "rejected", "error": str(e)}
        except Exception as e:  # whatever it was, the attempt failed
            report = {"id": job["id"], "outcome": "failed", "error": f"{type(e).__name__}: {e}"}
        while not lease.lost.is_set():
            status, said, pause = self.node.post(f"/v1/leases/{lease.name}/ack", {"jobs": [report]})
            if status == 200:
                break
            if status in (400, 401, 403, 404, 409):
                print(f"worker: {job['id']}: {said.get('detail', '')}", file=sys.stderr)
                break
            time.sleep(pause)
        with self.changed:
            self.free += 1
            self.changed.notify_all()


def main():
    a = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    a.add_argument("--node", default=os.environ.get("CARAVAN_NODE", "http://127.0.0.1:7171"))
    a.add_argument("--queue", required=True)
    a.add_argument("--concurrency", type=int, default=1)
    a.add_argument("--lease", type=int, default=30, help="seconds")
    a.add_argument("--name", default=f"python-{os.uname().nodename}-{os.getpid()}")
    given = a.parse_args()
    worker = Worker(Node(given.node, os.environ.get("CARAVAN_TOKEN", "")), given)

    def end(*_):
        worker.stop.set()

    signal.signal(signal.SIGTERM, end)
    signal.signal(signal.SIGINT, end)
    worker.run()


if __name__ == "__main__":
    main()
