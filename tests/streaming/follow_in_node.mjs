// Runs live.js in Node. Arguments: path of live.js, base URL, run id, token, query of the socket. Prints JSON lines:
// {"view", "rebuilt", "n"} and {"state", ...}; reads commands from stdin: cut, close, sent.
import { createInterface } from "node:readline";
import { pathToFileURL } from "node:url";
import { TestWebSocket } from "./node_websocket.mjs";

const [path, base, runId, token, query] = process.argv.slice(2);
globalThis.WebSocket = TestWebSocket;
TestWebSocket.headers = { Authorization: `Bearer ${token}` };
const realFetch = globalThis.fetch;
globalThis.fetch = (url, options = {}) =>
  realFetch(new URL(url, base), { ...options, headers: { ...options.headers, Authorization: `Bearer ${token}` } });
const say = (value) => process.stdout.write(JSON.stringify(value) + "\n");

const { follow } = await import(pathToFileURL(path));
const live = follow({
  runId,
  url: `${base.replace(/^http/, "ws")}${process.env.SOCKET_PATH ?? "/ws/v1/runs/"}${runId}/?${query}`,
  onView: (view, { rebuilt, frames }) => say({ view, rebuilt, n: frames.length }),
  onConnection: (state, detail) => say({ state, ...detail }),
});
for await (const line of createInterface({ input: process.stdin })) {
  if (line === "cut") TestWebSocket.all.at(-1).close();
  if (line === "retry") live.retry();
  if (line === "sent") say({ sent: TestWebSocket.all.at(-1).sent });
  if (line === "close") { live.close(); break; }
}
