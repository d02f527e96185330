// What an operator does in the dashboard, done in a browser. Each part says what it shows; a failed one leaves a picture.
import assert from "node:assert/strict";
import fs from "node:fs";
import path from "node:path";
import { Node, free_port, start_browser, start_redis, start_worker, until } from "./nodes.mjs";

const [caravan, folder] = process.argv.slice(2);
const pictures = path.join(folder, "screenshots");
const work = path.join(folder, "run");
fs.mkdirSync(pictures, { recursive: true });
const only = process.env.CARAVAN_E2E_ONLY; // a part of a name

const handler = path.join(work, "handler.sh");
fs.mkdirSync(work, { recursive: true });
fs.writeFileSync(handler, "#!/bin/sh\n# Succeeds when the file beside it says so.\nread -r line || true\n[ -e \"$(dirname \"$0\")/mended\" ] && exit 0\necho 'smtp: 550 no such user' >&2\nexit 1\n");

const ini = `
[queue.mail]
HANDLER = exec:sh ${handler}
MAX_ATTEMPTS = 1
MAX_WORKERS = 2
[queue.reports]
LENGTH = 100000
[queue.parcels]
[queue.tries]
HANDLER = exec:false
MAX_ATTEMPTS = 1
[queue.later]
RETENTION = 1h
[queue.quick]
TYPE = channel
HANDLER = exec:true
[cron.nightly]
SCHEDULE = 30 2 * * *
TIME_ZONE = Europe/Berlin
DESCRIPTION = writes the nightly report
PUSH = reports {"kind": "nightly"}
[limit.api]
RATE = 5
[cache.pages]
`;
const tokens = "READ_TOKEN = look\nPUSH_TOKEN = bring\nWORK_TOKEN = toil\nADMIN_TOKEN = rule\n";

const browser = await start_browser();
const cleanups = [];
let failures = 0;
const problems = []; // of the pages: errors on their console, requests to other hosts

async function new_page(node, options = {}) {
  const context = await browser.newContext({ viewport: { width: 1280, height: 800 }, timezoneId: "Europe/Berlin", locale: "en-GB", ...options });
  const page = await context.newPage();
  page.setDefaultTimeout(15000);
  page.on("pageerror", (e) => problems.push(`${page.url()}: ${e.message}`));
  page.on("console", (m) => {
    // The browser itself reports every answer above 399; those are expected where a role is refused or a page is probed.
    if (m.type() === "error" && !/status of (400|401|403|404|501|503)/.test(m.text())) problems.push(`${page.url()}: ${m.text()}`);
  });
  page.on("request", (r) => {
    if (!r.url().startsWith(node.url) && !r.url().startsWith("data:") && !(options.base && r.url().startsWith(options.base))) problems.push(`a request to ${r.url()}`);
  });
  return page;
}
const picture = (page, name) => page.screenshot({ path: path.join(pictures, `${name}.png`) });
const visit = async (page, node, query = "") => {
  await page.goto(`${node.url}/ui/${query}`);
  await page.waitForSelector("main#main");
};
const confirm = async (page, typed) => {
  await page.waitForSelector("dialog[open]");
  if (typed) await page.fill("dialog input[name=confirm]", typed);
  await page.click("dialog button[type=submit]");
};

async function part(name, run) {
  if (only && !name.includes(only)) return;
  const begun = Date.now();
  try {
    await run();
    console.log(`ok    ${name} (${Date.now() - begun} ms)`);
  } catch (cause) {
    ++failures;
    console.log(`FAILED ${name}: ${cause.stack}`);
    for (const context of browser.contexts()) for (const page of context.pages()) await picture(page, `failed-${name.replace(/\W+/g, "-")}`).catch(() => {});
  }
  for (const context of browser.contexts()) await context.close();
}

try {
  const node = await new Node(caravan, work, "north", ini).start();
  cleanups.push(() => node.stop());
  await node.push("mail", Array.from({ length: 12 }, (_, i) => ({ payload: { to: `user${i}@example.org`, order: i } })));
  await node.push("reports", Array.from({ length: 240 }, (_, i) => ({ payload: { n: i, big: 1 }, delay: i % 3 ? undefined : "2h" })).map((j) => JSON.parse(JSON.stringify(j))));
  await node.push("quick", Array.from({ length: 30 }, (_, i) => ({ payload: i })));
  await node.call("POST", "/v1/locks/nightly/acquire", { owner: "backup", ttl: "10m" });
  await node.call("POST", "/v1/limits/api/take", { key: "ann" });
  await until("the dead jobs", async () => (await node.queue("mail")).dead === 12);

  await part("overview shows counters, what is wrong and charts", async () => {
    const page = await new_page(node);
    await visit(page, node);
    await page.waitForSelector(".wrong li.bad >> text=mail: 12 dead jobs");
    await page.waitForSelector(".chart canvas");
    await page.waitForFunction(() => [...document.querySelectorAll(".card")].some((c) => c.textContent.includes("dead") && c.textContent.includes("12")));
    await picture(page, "overview");
  });

  await part("every page opens and shows what there is", async () => {
    const page = await new_page(node);
    await visit(page, node);
    const expected = { Queues: "reports", Schedules: "nightly", Locks: "backup", Limits: "api", Caches: "pages", Events: "", Store: "Data folder" };
    for (const [title, text] of Object.entries(expected)) {
      await page.click(`nav.side a:has-text("${title}")`);
      await page.waitForSelector(`main h1:has-text("${title}")`);
      if (text) await page.waitForSelector(`main >> text=${text}`);
      await page.waitForFunction(() => !document.querySelector("main [aria-busy]"));
      assert.equal(await page.locator("main .failure").count(), 0, `${title} shows a failure`);
      await picture(page, title.toLowerCase());
    }
    // Pages of what this node does not have hide themselves.
    assert.equal(await page.locator('nav.side a:has-text("Cluster")').count(), 0);
  });

  await part("the state of a view is in its URL", async () => {
    const page = await new_page(node);
    await visit(page, node, "?page=queues");
    await page.waitForSelector("tr[data-row=mail]");
    await page.fill("[data-search]", "rep");
    await page.waitForFunction(() => document.querySelectorAll("tbody tr").length === 1);
    assert.match(page.url(), /filter=rep/);
    await page.reload();
    await page.waitForSelector("tr[data-row=reports]");
    assert.equal(await page.inputValue("[data-search]"), "rep");
    await page.click("tr[data-row=reports] a.row-link");
    await page.waitForSelector(".tabs a.current >> text=waiting");
    await page.click(".tabs a:has-text('delayed')");
    await page.waitForSelector(".tabs a.current >> text=delayed");
    await picture(page, "queue");
    await page.goBack();
    await page.goBack();
    await page.waitForSelector("tr[data-row=reports]");
    assert.equal(await page.locator("tr[data-row=mail]").count(), 0);
  });

  await part("a dead job is found, understood and replayed", async () => {
    const page = await new_page(node);
    await visit(page, node, "?page=queue&queue=mail&state=dead");
    await page.waitForSelector("tbody tr");
    await page.fill("[data-search]", "user7@");
    await page.waitForFunction(() => document.querySelectorAll("tbody tr").length === 1);
    await picture(page, "dead-jobs");
    await page.click("tbody a.row-link");
    await page.waitForSelector(".why >> text=Why is it not running?");
    await page.waitForSelector(".why >> text=smtp: 550 no such user");
    await page.waitForSelector("pre.json >> text=user7@example.org");
    await picture(page, "job");
    fs.writeFileSync(path.join(work, "mended"), "");
    await page.click("button:has-text('Replay')");
    await page.waitForSelector(".note >> text=waits in line");
    await until("the job to be handled", async () => (await node.queue("mail")).dead === 11);
    await page.waitForSelector(".title-row .badge >> text=handled");
    fs.rmSync(path.join(work, "mended"));
  });

  await part("a bulk acts on exactly the filter and says the number first", async () => {
    const page = await new_page(node);
    await visit(page, node, "?page=queue&queue=mail&state=dead&filter=user1");
    // user1, user10, user11
    await page.waitForSelector("button:has-text('Delete 3')");
    await page.click("button:has-text('Delete 3')");
    await page.waitForSelector("dialog >> text=Exactly the dead jobs shown for “user1”");
    await picture(page, "bulk");
    await confirm(page);
    await page.waitForSelector(".note >> text=Delete: 3 done");
    assert.equal((await node.queue("mail")).dead, 8);
    await page.fill("[data-search]", "");
    await page.waitForFunction(() => document.querySelectorAll("tbody tr").length === 8);
  });

  await part("a pause is made, seen live elsewhere and taken back", async () => {
    const page = await new_page(node);
    const other = await new_page(node);
    await visit(page, node, "?page=queue&queue=reports");
    await visit(other, node, "?page=queues");
    await other.waitForSelector("tr[data-row=reports]");
    await page.click("button:has-text('Pause')");
    await page.waitForSelector("dialog[open]");
    await page.fill("dialog input[name=for]", "10m");
    await page.click("dialog button[type=submit]");
    await page.waitForSelector(".hint >> text=Paused by");
    await other.waitForSelector("tr[data-row=reports] .badge >> text=paused"); // by itself
    await picture(other, "queues-paused");
    await page.click("button:has-text('Resume')");
    await other.waitForSelector("tr[data-row=reports] .badge >> text=running");
  });

  await part("a purge wants the name typed", async () => {
    const page = await new_page(node);
    await visit(page, node, "?page=queue&queue=reports&state=delayed");
    await page.click("button:has-text('Purge delayed')");
    await page.waitForSelector("dialog[open]");
    assert.ok(await page.isDisabled("dialog button[type=submit]"));
    await page.keyboard.press("Escape");
    await page.waitForSelector("dialog", { state: "detached" });
    assert.equal((await node.queue("reports")).delayed, 80);
    await page.click("button:has-text('Purge delayed')");
    await confirm(page, "reports");
    await page.waitForSelector(".note >> text=80 delayed jobs of reports are forgotten");
    assert.equal((await node.queue("reports")).delayed, 0);
  });

  await part("a job is pushed by hand, large numbers as they were typed", async () => {
    const page = await new_page(node);
    await visit(page, node, "?page=queue&queue=reports");
    await page.click("button:has-text('Push')");
    await page.waitForSelector("dialog textarea");
    await page.fill("dialog textarea", '{"id": 9223372036854775807}');
    await page.click("dialog button[type=submit]");
    const text = await page.textContent(".note >> text=pushed");
    await visit(page, node, `?page=job&job=${text.replace("pushed ", "")}`);
    await page.waitForSelector("pre.json >> text=9223372036854775807");
  });

  await part("a schedule is previewed", async () => {
    const page = await new_page(node);
    await visit(page, node, "?page=schedules");
    await page.click("tr[data-row=nightly] a.row-link");
    await page.waitForFunction(() => document.querySelectorAll("ol.times li").length === 5);
    await picture(page, "schedule");
    await visit(page, node, `?page=schedules&try=${encodeURIComponent("61 * * * *")}`);
    await page.waitForSelector(".preview .bad-text");
  });

  await part("workers are seen, quieted, scaled and stopped", async () => {
    const gate = path.join(work, "gate");
    const hold = path.join(work, "hold.sh");
    fs.writeFileSync(hold, "read -r line || true\nwhile [ ! -e \"$(dirname \"$0\")/gate\" ]; do sleep 0.1; done\n");
    const worker = start_worker(caravan, path.join(work, "ann"), ["--join", node.url.replace("http://", ""), "--queue", "parcels", "--name", "ann", "--concurrency", "2", "--handler", `exec:sh ${hold}`]);
    cleanups.unshift(() => worker.stop());
    await node.push("parcels", [1, 2, 3, 4, 5].map((n) => ({ payload: n })));
    const page = await new_page(node);
    await visit(page, node, "?page=workers");
    const row = "tr:has(b:text-is('ann'))";
    await page.waitForSelector(`${row} >> text=2/2`); // both its handlers are busy
    assert.ok((await page.locator("tr:has-text('pool')").count()) >= 2, "the handlers of the node's queues are there too");
    await picture(page, "workers");
    await page.click(`${row} button:has-text('Scale')`);
    await page.waitForSelector("dialog[open]");
    await page.fill("dialog input[name=n]", "3");
    await page.click("dialog button[type=submit]");
    await page.waitForSelector(`${row} >> text=3/3`);
    await page.click(`${row} button:has-text('Quiet')`);
    await page.waitForSelector(`${row} button:has-text('Run')`);
    await page.waitForSelector(`${row} .badge >> text=quiet`);
    await picture(page, "workers-quiet");
    fs.writeFileSync(gate, "");
    await page.waitForSelector(`${row} >> text=0/3`);
    assert.equal((await node.queue("parcels")).waiting, 2, "a quiet worker takes no more");
    await page.click(`${row} button:has-text('Run')`);
    await until("the rest to be handled", async () => (await node.queue("parcels")).handled === 5);
    await page.click(`${row} button:has-text('Stop')`);
    await confirm(page);
    await page.waitForSelector(row, { state: "detached" });
    await until("the worker to end", () => worker.process.exitCode === 0);
  });

  await part("events are followed as they happen", async () => {
    const page = await new_page(node);
    await visit(page, node, "?page=events");
    await page.waitForSelector(".badge.good >> text=live");
    await node.call("POST", "/v1/events", { topic: "app.deploy", subject: "web", body: { version: 7 } });
    await page.waitForSelector("tr:has-text('app.deploy') >> text=version");
    await node.call("POST", "/v1/queues/reports/pause", { for: "5m" });
    await page.waitForSelector("tr:has-text('queue.paused') >> a:text-is('reports')");
    await node.call("POST", "/v1/queues/reports/resume", {});
    await page.waitForSelector("tr:has-text('queue.resumed')");
    // What is told for each job is made only while somebody wants it.
    await node.push("quick", { payload: "before" });
    await until("the job", async () => (await node.queue("quick")).waiting === 0);
    assert.equal(await page.locator("tr:has-text('job.pushed')").count(), 0);
    await page.selectOption("select[aria-label='which events']", "all");
    await until("the stream of all", async () => (await node.call("GET", "/v1/events/topics")).subscribers === 1);
    await page.waitForSelector(".badge.good >> text=live");
    await until("events of a job", async () => {
      await node.push("quick", { payload: "after" });
      return page.locator("tr:has-text('job.handled')").count();
    });
    await picture(page, "events");
    await page.fill("[data-search]", "app.");
    await page.waitForFunction(() => document.querySelectorAll("tbody tr").length === 1);
    await page.fill("[data-search]", "");
    await page.click("button:has-text('Hold')");
    await node.call("POST", "/v1/events", { topic: "app.held" });
    await until("it to be told", async () => (await node.call("GET", "/v1/events/topics")).topics.some((t) => t.topic === "app.held"));
    assert.equal(await page.locator("tr:has-text('app.held')").count(), 0);
    await page.click("button:has-text('Go on')");
    await page.waitForSelector("tr:has-text('app.held')");
  });

  await part("a change is told, not asked for; without the stream it is asked for", async () => {
    const page = await new_page(node);
    const asked = [];
    page.on("request", (r) => /\/v1\/cron$/.test(r.url()) && asked.push(r.url()));
    await visit(page, node, "?page=schedules");
    await page.waitForSelector("tr[data-row=nightly] .badge >> text=on");
    await until("the stream", async () => (await node.call("GET", "/v1/events/topics")).subscribers === 1);
    const events = page.waitForResponse(/\/v1\/cron$/);
    await node.call("POST", "/v1/cron/nightly/run", {});
    await events;
    await page.waitForSelector("tr[data-row=nightly] .badge >> text=finished");
    assert.ok(asked.length < 12, `${asked.length} looks at what had not changed`);
    const blind = await new_page(node);
    await blind.route("**/v1/events?**", (r) => r.fulfill({ status: 501, body: "{}" }));
    await visit(blind, node, "?page=schedules");
    await blind.waitForSelector("tr[data-row=nightly] .badge >> text=on");
    await node.call("POST", "/v1/cron/nightly/pause", {});
    await blind.waitForSelector("tr[data-row=nightly] .badge >> text=paused");
    await node.call("POST", "/v1/cron/nightly/resume", {});
  });

  await part("the node changes all that match, and says the number first", async () => {
    await node.push("tries", Array.from({ length: 30 }, (_, i) => ({ payload: i, key: `k${i % 3}` })));
    await until("the dead jobs", async () => (await node.queue("tries")).dead === 30);
    const page = await new_page(node);
    await visit(page, node, "?page=queue&queue=tries&state=dead&size=50");
    await page.click("button:has-text('Delete by filter')");
    await page.waitForSelector("dialog input[name=key]");
    await page.fill("dialog input[name=key]", "k1");
    await page.click("dialog button[type=submit]");
    await page.waitForSelector("dialog >> text=Delete 10 jobs");
    assert.equal((await node.queue("tries")).dead, 30);
    await picture(page, "by-filter");
    await confirm(page, "tries");
    await page.waitForSelector(".note >> text=Delete: 10 done");
    assert.equal((await node.queue("tries")).dead, 20);
    await page.click("button:has-text('Replay by filter')");
    await page.waitForSelector("dialog input[name=error]");
    await page.fill("dialog input[name=error]", "no such text");
    await page.click("dialog button[type=submit]");
    await page.waitForSelector(".note.bad >> text=No dead job of tries matches");
  });

  await part("a job is cancelled and kept as done", async () => {
    const page = await new_page(node);
    await node.push("later", [{ payload: "urgent", priority: 7 }, { payload: "in turn", order_by: "ann" }]);
    await visit(page, node, "?page=queue&queue=later");
    await page.click("tr:has-text('urgent') a.row-link");
    await page.waitForSelector(".facts >> text=Priority");
    await page.click("button:has-text('Cancel…')");
    await confirm(page);
    await page.waitForSelector(".title-row .badge >> text=cancelled");
    await visit(page, node, "?page=queue&queue=later&state=done");
    await page.waitForSelector("tr:has-text('urgent') .badge >> text=cancelled");
    await picture(page, "done");
    assert.equal((await node.queue("later")).waiting, 1);
  });

  await part("a lock is taken away by force", async () => {
    const page = await new_page(node);
    await visit(page, node, "?page=locks");
    await page.click("tr[data-row=nightly] button:has-text('Release')");
    await confirm(page, "nightly");
    await page.waitForSelector("main >> text=Nobody holds a lock now.");
  });

  await part("keys", async () => {
    const page = await new_page(node);
    await visit(page, node);
    await page.keyboard.press("g");
    await page.keyboard.press("q");
    await page.waitForSelector("tr[data-row=mail]");
    await page.keyboard.press("/");
    assert.ok(await page.evaluate(() => document.activeElement.matches("[data-search]")));
    await page.keyboard.press("Escape");
    await page.keyboard.press("j");
    await page.keyboard.press("Enter");
    await page.waitForSelector(".title-row h1");
    await page.keyboard.press("?");
    await page.waitForSelector(".help");
    await page.keyboard.press("Escape");
    const before = await page.evaluate(() => document.documentElement.dataset.theme);
    await page.keyboard.press("d");
    assert.notEqual(await page.evaluate(() => document.documentElement.dataset.theme), before);
  });

  await part("dark, and on a phone", async () => {
    const dark = await new_page(node, { colorScheme: "dark" });
    await visit(dark, node);
    await dark.waitForSelector(".chart canvas");
    await picture(dark, "overview-dark");
    const phone = await new_page(node, { viewport: { width: 390, height: 780 }, colorScheme: "dark" });
    await visit(phone, node, "?page=queues");
    await phone.waitForSelector("tr[data-row=mail]");
    const wide = await phone.evaluate(() => document.documentElement.scrollWidth > document.documentElement.clientWidth);
    assert.ok(!wide, "the page itself must not scroll sideways");
    await picture(phone, "queues-phone");
    await phone.click(".menu-button");
    await phone.click("nav.side a:has-text('Overview')");
    await phone.waitForSelector(".cards");
    await picture(phone, "overview-phone");
  });

  await part("a node that is gone is said, and found again", async () => {
    const lone = await new Node(caravan, work, "lone", "[queue.mail]\n").start();
    cleanups.push(() => lone.stop());
    const page = await new_page(lone);
    await visit(page, lone, "?page=queues");
    await page.waitForSelector("tr[data-row=mail]");
    const noise = problems.length;
    await page.route("**/v1/**", (r) => r.abort());
    await page.waitForSelector("main >> text=The node does not answer");
    await picture(page, "unreachable");
    await page.unroute("**/v1/**");
    await page.waitForSelector("main >> text=The node does not answer", { state: "detached" });
    problems.length = noise; // the browser reports each request that was broken off
  });

  await part("login, roles and a refused action", async () => {
    const guarded = await new Node(caravan, work, "guarded", `${tokens}[queue.mail]\n`).start();
    cleanups.push(() => guarded.stop());
    const page = await new_page(guarded);
    await page.goto(`${guarded.url}/ui/`);
    await page.waitForSelector(".login input[name=token]");
    await picture(page, "login");
    await page.fill("input[name=token]", "wrong");
    await page.click("button:has-text('Log in')");
    await page.waitForSelector(".login .failure");
    await page.fill("input[name=token]", "look");
    await page.click("button:has-text('Log in')");
    await page.waitForSelector("main#main");
    await page.goto(`${guarded.url}/ui/?page=queue&queue=mail`);
    await page.waitForSelector("button:has-text('Pause')");
    assert.ok(await page.isDisabled("button:has-text('Pause')"));
    await picture(page, "read-only");
    // Whoever removes the attribute is refused by the API.
    await page.$eval("button:has-text('Pause')", (b) => (b.disabled = false)).catch(() => {});
    await page.evaluate(() => [...document.querySelectorAll("button")].filter((b) => b.textContent.includes("Pause")).forEach((b) => (b.disabled = false)));
    await page.click("button:has-text('Pause')");
    await confirm(page);
    await page.waitForSelector(".note.bad >> text=admin");
    assert.equal((await guarded.call("GET", "/v1/queues/mail", undefined, "look")).phase, "running");
    await page.click("button:has-text('Log out')");
    await page.waitForSelector(".login input[name=token]");
    await page.fill("input[name=token]", "rule");
    await page.click("button:has-text('Log in')");
    await page.waitForSelector("button:has-text('Pause'):not([disabled])");
    await visit(page, guarded, "?page=events&tab=audit");
    await page.waitForSelector("tr >> text=POST /v1/queues/mail/pause");
    await page.waitForSelector(".badge >> text=403");
    await picture(page, "audit");
  });

  await part("behind a proxy with a path prefix", async () => {
    const { start_proxy } = await import("./proxy.mjs");
    const proxy = await start_proxy(node.url, "/tools/caravan");
    cleanups.push(() => proxy.stop());
    const page = await new_page(node, { base: proxy.url });
    await page.goto(`${proxy.url}/tools/caravan/`);
    await page.waitForSelector("main#main");
    assert.ok(new URL(page.url()).pathname.startsWith("/tools/caravan/ui/"));
    await page.click("nav.side a:has-text('Queues')");
    await page.waitForSelector("tr[data-row=mail]");
  });

  await part("a move is watched live, a node is drained", async () => {
    const redis = await start_redis(path.join(work, "redis"));
    cleanups.push(() => redis.stop());
    const shared = `[queue.orders]\nTYPE = redis\nCONN_STR = redis://127.0.0.1:${redis.port}/0\n`;
    const east = await new Node(caravan, work, "east", shared).start();
    cleanups.unshift(() => east.stop());
    await until("an owner", async () => (await east.queue("orders")).owner === "east");
    const west = await new Node(caravan, work, "west", shared).start();
    cleanups.unshift(() => west.stop());
    await east.push("orders", Array.from({ length: 50 }, (_, i) => ({ payload: i })));
    const page = await new_page(east);
    const watcher = await new_page(west);
    await visit(watcher, west, "?page=cluster");
    await watcher.waitForSelector("tr[data-row=east] >> text=orders");
    await visit(page, east, "?page=queue&queue=orders");
    await page.click("button:has-text('Move')");
    await page.waitForSelector("dialog select");
    await page.selectOption("dialog select", "west");
    await page.click("dialog button[type=submit]");
    await watcher.waitForSelector("tr[data-row=west] >> text=orders"); // by itself
    await watcher.waitForFunction(() => [...document.querySelectorAll("section tr")].some((r) => /orders/.test(r.textContent) && /east/.test(r.textContent) && /west/.test(r.textContent)));
    await picture(watcher, "cluster");
    assert.equal((await west.queue("orders")).waiting, 50);
    await watcher.click("tr[data-row=west] button:has-text('Drain')");
    await confirm(watcher, "west");
    await watcher.waitForSelector("tr[data-row=east] >> text=orders");
    await watcher.waitForSelector("tr[data-row=west] .badge >> text=cordoned");
    await picture(watcher, "drained");
  });

  await part("nodes that joined by address: a move is watched live", async () => {
    const ports = [await free_port(), await free_port()];
    const names = ["earth", "mars"];
    const pair = names.map((name, i) => new Node(caravan, work, name, `${tokens}[cluster]\nADDR = 127.0.0.1:${ports[i]}\nJOIN = 127.0.0.1:${ports[1 - i]}\n[queue.letters]\nTYPE = level\n`));
    for (const n of pair) {
      await n.start();
      cleanups.unshift(() => n.stop());
    }
    const home = async (n) => {
      const q = await n.call("GET", "/v1/queues/letters", undefined, "look").catch(() => ({}));
      return q.phase === "running" ? q.owner : "";
    };
    const from = await until("one home for the queue", async () => {
      const [a, b] = [await home(pair[0]), await home(pair[1])];
      return a && a === b && a;
    });
    const to = names.find((n) => n !== from);
    const [owner, other] = [pair[names.indexOf(from)], pair[names.indexOf(to)]];
    await owner.call("POST", "/v1/queues/letters/jobs", Array.from({ length: 2000 }, (_, i) => ({ payload: { n: i } })), "bring");
    const login = async (page, n, token, query) => {
      await page.goto(`${n.url}/ui/${query}`);
      await page.fill("input[name=token]", token);
      await page.click("button:has-text('Log in')");
      await page.waitForSelector("main#main");
    };
    // Who may only read watches from the other node and may not move anything.
    const watcher = await new_page(other);
    await login(watcher, other, "look", "?page=cluster");
    await watcher.waitForSelector(`tr[data-row=${from}] >> a:text-is('letters')`);
    assert.ok(await watcher.isDisabled(`tr[data-row=${to}] button:has-text('Drain')`));
    const page = await new_page(owner);
    await login(page, owner, "rule", "?page=queue&queue=letters");
    await page.click("button:has-text('Move')");
    await page.waitForSelector("dialog select");
    await page.selectOption("dialog select", to);
    await page.click("dialog button[type=submit]");
    await watcher.waitForSelector(`tr[data-row=${to}] >> a:text-is('letters')`); // by itself
    await page.waitForFunction((name) => [...document.querySelectorAll(".facts div")].some((d) => /Owner/.test(d.textContent) && d.textContent.includes(name)), to);
    await page.click("nav.side a:has-text('Cluster')");
    await page.waitForSelector("section tr:has-text('letters') .badge >> text=moved");
    await page.waitForSelector("section tr:has-text('letters') >> text=2,000");
    await picture(page, "moved");
    await until("all jobs to be there", async () => (await other.call("GET", "/v1/queues/letters", undefined, "look")).waiting === 2000);
    // A node that dies is told to those who watch the other.
    await page.context().close(); // the browser would report each request to it
    owner.process.kill("SIGKILL");
    await watcher.waitForSelector(`tr[data-row=${from}] .badge.bad >> text=silent`);
    await picture(watcher, "node-down");
  });

  await part("no page had an error or asked another host", async () => assert.deepEqual(problems, []));
} finally {
  await browser.close();
  for (const f of cleanups) await f().catch((e) => console.log(`cleaning up: ${e.message}`));
}
console.log(failures ? `${failures} parts failed; pictures in ${pictures}` : `all well; pictures in ${pictures}`);
process.exit(failures ? 1 : 0);
