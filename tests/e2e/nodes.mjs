// Nodes, a Redis and a browser for the tests.
import { spawn } from "node:child_process";
import { once } from "node:events";
import fs from "node:fs";
import net from "node:net";
import path from "node:path";
import { chromium } from "playwright-core";

const patience = 20000;

/// Waits until `look()` answers something true; says what it waited for when it does not come.
export async function until(what, look) {
  const end = Date.now() + patience;
  for (;;) {
    const value = await look();
    if (value) return value;
    if (Date.now() > end) throw new Error(`waited in vain for: ${what}`);
    await new Promise((r) => setTimeout(r, 50));
  }
}

export async function free_port() {
  const server = net.createServer().listen(0, "127.0.0.1");
  await once(server, "listening");
  const { port } = server.address();
  server.close();
  await once(server, "close");
  return port;
}

export class Node {
  constructor(caravan, folder, name, ini) {
    Object.assign(this, { caravan, name, folder: path.join(folder, name) });
    fs.mkdirSync(this.folder, { recursive: true });
    fs.writeFileSync(path.join(this.folder, "node.ini"), `[node]\nNAME = ${name}\nDATA_DIR = ${this.folder}/data\n[http]\nADDR = 127.0.0.1:0\n${ini}`);
  }
  async start() {
    const port_file = path.join(this.folder, "port");
    fs.rmSync(port_file, { force: true });
    const log = fs.openSync(path.join(this.folder, "node.log"), "a");
    this.process = spawn(this.caravan, ["node", "--config", path.join(this.folder, "node.ini"), "--port-file", port_file], { stdio: ["ignore", log, log] });
    const port = await until(`${this.name} to start, see ${this.folder}/node.log`, () => {
      if (this.process.exitCode !== null) throw new Error(`${this.name} ended: ${fs.readFileSync(path.join(this.folder, "node.log"), "utf8")}`);
      return fs.existsSync(port_file) && fs.readFileSync(port_file, "utf8").trim();
    });
    this.url = `http://127.0.0.1:${port}`;
    return this;
  }
  async call(method, where, body, token) {
    const answer = await fetch(this.url + where, {
      method,
      headers: { ...(token ? { Authorization: `Bearer ${token}` } : {}), ...(body === undefined ? {} : { "Content-Type": "application/json" }) },
      body: body === undefined ? undefined : JSON.stringify(body),
    });
    const text = await answer.text();
    if (!answer.ok) throw new Error(`${method} ${where}: ${answer.status} ${text}`);
    return text ? JSON.parse(text) : null;
  }
  push(queue, jobs) {
    return this.call("POST", `/v1/queues/${queue}/jobs`, jobs);
  }
  queue(name) {
    return this.call("GET", `/v1/queues/${name}`);
  }
  async stop() {
    if (!this.process || this.process.exitCode !== null || this.process.signalCode !== null) return;
    this.process.kill("SIGTERM");
    const hard = setTimeout(() => this.process.kill("SIGKILL"), 15000);
    await once(this.process, "exit");
    clearTimeout(hard);
  }
}

/// `caravan worker`, until stop().
export function start_worker(caravan, folder, words) {
  fs.mkdirSync(folder, { recursive: true });
  const log = fs.openSync(path.join(folder, "worker.log"), "a");
  const process = spawn(caravan, ["worker", ...words], { stdio: ["ignore", log, log] });
  return {
    process,
    stop: async () => {
      if (process.exitCode !== null || process.signalCode !== null) return;
      process.kill("SIGTERM");
      const hard = setTimeout(() => process.kill("SIGKILL"), 10000);
      await once(process, "exit");
      clearTimeout(hard);
    },
  };
}

export async function start_redis(folder) {
  const port = await free_port();
  fs.mkdirSync(folder, { recursive: true });
  const process = spawn("redis-server", ["--port", port, "--bind", "127.0.0.1", "--save", "", "--dir", folder], { stdio: "ignore" });
  await until("Redis", () => new Promise((answer) => {
    const s = net.connect(port, "127.0.0.1", () => (s.destroy(), answer(true)));
    s.on("error", () => answer(false));
  }));
  return { port, stop: async () => { process.kill("SIGTERM"); await once(process, "exit"); } };
}

export const start_browser = () =>
  chromium.launch({
    executablePath: process.env.CARAVAN_CHROMIUM ?? "/usr/bin/chromium",
    args: ["--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking", "--disable-component-update", "--disable-sync"],
  });
