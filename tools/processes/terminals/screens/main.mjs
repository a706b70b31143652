// The screen keeper: one process of a machine that sees every byte of every terminal in FOLDER and can say at any moment
// how its screen looks. Killing it ends nothing; the next one goes on from what was kept.
//
//   node main.mjs FOLDER
//
// FOLDER/screens.sock: a line of JSON, {"key", "plain"?: true}, and a line back: {"offset", "rows", "cols", "exact", "data",
// "tail"}, {"text", "exact"} for a plain one, or {"error"}. It never answers what a program asks its terminal.

import { createHash } from "node:crypto";
import fs from "node:fs";
import net from "node:net";
import path from "node:path";

import { Keeper } from "./keeper.mjs";

const folder = path.resolve(process.argv[2] ?? ".");
const MOST_REQUEST_CHARS = 4096;
const LOOK_AGAIN_MS = 2000; // should the system have no watch left for us
const WARD_SOCKET = /^([0-9a-f]{32})\.sock$/;

const keepers = new Map(); // by the digest that the ward's socket is named with

function look() {
  const there = new Set();
  for (const name of fs.readdirSync(folder)) {
    const digest = WARD_SOCKET.exec(name)?.[1];
    if (!digest) continue;
    there.add(digest);
    if (!keepers.has(digest)) begin(digest);
  }
}

function begin(digest) {
  const keeper = new Keeper(folder, digest);
  keepers.set(digest, keeper);
  keeper.over.then(() => keepers.delete(digest));
}

async function answer(text) {
  const request = JSON.parse(text);
  const digest = createHash("sha256").update(String(request.key)).digest("hex").slice(0, 32);
  if (!keepers.has(digest) && fs.existsSync(path.join(folder, `${digest}.sock`))) begin(digest);
  const keeper = keepers.get(digest);
  try {
    if (keeper) return await (request.plain ? keeper.text() : keeper.snapshot());
  } catch {
    // Its ward has just gone, and only the socket is left.
  }
  const last = Keeper.last(folder, digest);
  if (!last) return { error: "There is no screen of this terminal." };
  return request.plain ? { text: last.text, exact: last.exact } : last;
}

function serve(connection) {
  let begun = "";
  connection.setEncoding("utf8");
  connection.on("error", () => connection.destroy());
  connection.on("data", async (piece) => {
    begun += piece;
    const end = begun.indexOf("\n");
    if (end < 0 && begun.length > MOST_REQUEST_CHARS) return connection.destroy();
    if (end < 0) return;
    connection.removeAllListeners("data");
    let said;
    try {
      said = await answer(begun.slice(0, end));
    } catch (error) {
      said = { error: String(error.message ?? error) };
    }
    connection.end(`${JSON.stringify(said)}\n`);
  });
}

fs.mkdirSync(folder, { recursive: true, mode: 0o700 });
process.umask(0o077);
const place = path.join(folder, "screens.sock");
const draft = `${place}.${process.pid}`;
net.createServer(serve).listen(draft, () => {
  fs.renameSync(draft, place); // in place of one that was killed
  look();
  fs.watch(folder, look).on("error", () => {});
  setInterval(look, LOOK_AGAIN_MS);
  setInterval(() => Keeper.forgetOld(folder), 3_600_000);
  console.log("screens.ready");
});
for (const signal of ["SIGTERM", "SIGINT"]) {
  process.on(signal, () => {
    for (const keeper of keepers.values()) keeper.leave();
    fs.rmSync(place, { force: true });
    process.exit(0);
  });
}
