// Runs live.js in Node. Arguments: path of live.js, base URL, run id, token, query of the socket. OPTIONS in the
// environment: more options of follow() as JSON, or "-" for the first line of stdin. Prints JSON lines: {"view", "rebuilt", "frames"} and {"state", ...};
// reads commands from stdin: cut, garble, retry, sent, asked, hide, show, close.
import { createInterface } from "node:readline";
import { pathToFileURL } from "node:url";
import { TestWebSocket } from "./node_websocket.mjs";

const [path, base, runId, token, query] = process.argv.slice(2);
globalThis.WebSocket = TestWebSocket;
TestWebSocket.headers = { Authorization: `Bearer ${token}` };
const realFetch = globalThis.fetch;
globalThis.document = Object.assign(new EventTarget(), { hidden: false }); // what a tab knows of being looked at
const asked = [];
globalThis.fetch = (url, options = {}) => {
  asked.push(url);
  return realFetch(new URL(url, base), { ...options, headers: { ...options.headers, Authorization: `Bearer ${token}` } });
};
const say = (value) => process.stdout.write(JSON.stringify(value) + "\n");

const lines = createInterface({ input: process.stdin })[Symbol.asyncIterator]();
const options = process.env.OPTIONS === "-" ? (await lines.next()).value : (process.env.OPTIONS ?? "{}");
const { follow } = await import(pathToFileURL(path));
const live = follow({
  runId,
  url: `${base.replace(/^http/, "ws")}${process.env.SOCKET_PATH ?? "/ws/v1/runs/"}${runId}/?${query}`,
  onView: (view, { rebuilt, frames }) => say({ view, rebuilt, frames }),
  onConnection: (state, detail) => say({ state, ...detail }),
  ...JSON.parse(options),
});
for await (const line of lines) {
  if (line === "cut") TestWebSocket.all.at(-1).close();
  if (line === "garble") TestWebSocket.all.at(-1).onmessage({ data: "<html>" });
  if (line === "retry") live.retry();
  if (line === "sent") say({ sent: TestWebSocket.all.at(-1).sent });
  if (line === "hide" || line === "show") {
    document.hidden = line === "hide";
    document.dispatchEvent(new Event("visibilitychange"));
  }
  if (line === "asked") say({ asked });
  if (line === "close") { live.close(); break; }
}
