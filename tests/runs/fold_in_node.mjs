// Reads lines of JSON [view or null, frames]; answers each with the folded view on one line.
import { createInterface } from "node:readline";
import { pathToFileURL } from "node:url";

const { foldAll } = await import(pathToFileURL(process.argv[2]));
for await (const line of createInterface({ input: process.stdin })) {
  const [view, frames] = JSON.parse(line);
  process.stdout.write(JSON.stringify(foldAll(frames, view)) + "\n");
}
