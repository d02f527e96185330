// Does what docs/tour.md describes and takes its pictures: node tour.mjs CARAVAN WORK PICTURES
import { execFileSync } from "node:child_process";
import fs from "node:fs";
import path from "node:path";
import { Node, start_browser, start_redis, start_worker, until } from "./nodes.mjs";

const [caravan, work, pictures] = process.argv.slice(2);
fs.rmSync(work, { recursive: true, force: true });
fs.mkdirSync(work, { recursive: true });
fs.mkdirSync(pictures, { recursive: true });
// The handler of the page: mails to example.org work once the file relay is there.
fs.writeFileSync(path.join(work, "send.sh"), 'read -r item\ncase $item in *bob*) [ -e "$(dirname "$0")/relay" ] || { echo "550 no relay for bob@example.org" >&2; exit 1; } ;; esac\n');

const redis = await start_redis(path.join(work, "redis"));
const shared = `[redis]\nCONN_STR = redis://127.0.0.1:${redis.port}/0\n[queue.orders]\nTYPE = redis\n`;
const node = await new Node(
  caravan,
  work,
  "earth",
  `${shared}[queue.mail]\nHANDLER = exec:sh ${work}/send.sh\nMAX_ATTEMPTS = 2\nMAX_WORKERS = 2\n[queue.parcels]\n[queue.reports]\n[cron.nightly]\nSCHEDULE = 30 2 * * *\nTIME_ZONE = Europe/Berlin\nDESCRIPTION = asks for the nightly report\nPUSH = reports {"kind": "nightly"}\n`,
).start();
await until("earth to own orders", async () => (await node.queue("orders")).owner === "earth");
const mars = await new Node(caravan, work, "mars", shared).start();
const cli = (...words) => execFileSync(caravan, words, { env: { ...process.env, CARAVAN_NODE: node.url, NO_COLOR: "1" }, encoding: "utf8" });

cli("push", "mail", "--quiet", ...Array.from({ length: 40 }, (_, i) => JSON.stringify({ to: `user${i}@example.org`, subject: "Welcome" })));
cli("push", "mail", '{"subject":"Your invoice","to":"bob@example.org","order":9007199254740993}');
cli("push", "reports", "--delay", "2h", '{"kind":"weekly"}');
cli("push", "orders", "--quiet", "1", "2", "3");
await until("the dead job", async () => (await node.queue("mail")).dead === 1);

const browser = await start_browser();
const context = await browser.newContext({ viewport: { width: 1040, height: 640 }, timezoneId: "Europe/Berlin", locale: "en-GB" });
const page = await context.newPage();
page.setDefaultTimeout(20000);
const shoot = (name) => page.screenshot({ path: path.join(pictures, `${name}.png`) });
const visit = async (query) => {
  await page.goto(`${node.url}/ui/${query}`);
  await page.waitForSelector("main#main");
  await page.waitForFunction(() => !document.querySelector("main [aria-busy]"));
};
await visit("");
await page.waitForSelector(".wrong li.bad");
await page.waitForSelector(".chart canvas");
await shoot("1-overview");
await visit("?page=queue&queue=mail");
await page.waitForSelector("tbody tr");
await shoot("2-queue");
await page.click("tbody a.row-link");
await page.waitForSelector(".why");
await shoot("3-job");
fs.writeFileSync(path.join(work, "relay"), "");
await page.click("button:has-text('Replay')");
await page.waitForSelector(".title-row .badge >> text=handled");
await shoot("4-replayed");
await visit("?page=schedules&task=nightly");
await page.waitForFunction(() => document.querySelectorAll("ol.times li").length === 5);
await shoot("5-schedule");
await visit("?page=cluster");
await page.waitForSelector("tr[data-row=earth] >> text=orders");
await page.click("tr[data-row=earth] button:has-text('Drain')");
await page.waitForSelector("dialog[open]");
await page.fill("dialog input[name=confirm]", "earth");
await shoot("6-drain");
await page.click("dialog button[type=submit]");
await page.waitForSelector("tr[data-row=mars] >> text=orders");
await page.waitForSelector("section tr:has-text('orders') .badge >> text=moved");
await shoot("7-drained");
fs.writeFileSync(path.join(work, "slow.sh"), "read -r item\nsleep 600\n");
const worker = start_worker(caravan, path.join(work, "worker"), ["--join", node.url.replace("http://", ""), "--queue", "parcels", "--name", "ann", "--concurrency", "4", "--handler", `exec:sh ${work}/slow.sh`]);
cli("push", "parcels", "--quiet", "1", "2", "3");
await visit("?page=workers");
await page.waitForSelector("tr:has(b:text-is('ann')) >> text=3/4");
await shoot("8-workers");
await worker.stop();
cli("event", "publish", "app.deploy", '{"version": 7}', "--subject", "shop");
await visit("?page=events");
await page.waitForSelector(".badge.good >> text=live");
cli("queue", "pause", "reports", "--for", "10m");
await page.waitForSelector("tr:has-text('queue.paused') >> text=reports");
await shoot("9-events");
await browser.close();
for (const n of [node, mars]) await n.stop();
await redis.stop();
