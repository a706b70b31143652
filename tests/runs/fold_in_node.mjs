// Reads lines of JSON: a list of [view or null, frames]; answers each line with the list of the folded views.
import { createInterface } from "node:readline";
import { pathToFileURL } from "node:url";

const { foldAll } = await import(pathToFileURL(process.argv[2]));
for await (const line of createInterface({ input: process.stdin })) {
  const views = JSON.parse(line).map(([view, frames]) => foldAll(frames, view));
  process.stdout.write(JSON.stringify(views) + "\n");
}
