// What nginx does with `location /tools/caravan/ { proxy_pass http://node/; }`.
import http from "node:http";
import { once } from "node:events";

export async function start_proxy(target, prefix) {
  const to = new URL(target);
  const server = http.createServer((request, answer) => {
    if (!request.url.startsWith(`${prefix}/`)) return answer.writeHead(404).end();
    const onward = http.request(
      { host: to.hostname, port: to.port, path: request.url.slice(prefix.length), method: request.method, headers: { ...request.headers, host: to.host } },
      (got) => {
        answer.writeHead(got.statusCode, got.headers);
        got.pipe(answer);
      },
    );
    onward.on("error", () => answer.destroy());
    request.pipe(onward);
  });
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  return {
    url: `http://127.0.0.1:${server.address().port}`,
    stop: async () => {
      server.closeAllConnections();
      server.close();
    },
  };
}
