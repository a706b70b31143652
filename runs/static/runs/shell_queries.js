// Questions that programs ask their terminal (who are you, where is the cursor, which colours): one terminal may
// answer, once. While `isSilent()` (what is replayed was answered long ago; a viewer is not the terminal) they vanish.

const REPORTS = new Set([11, 13, 14, 15, 16, 18, 19, 20, 21]); // of CSI … t; the others change a window

export function guardQueries(parser, isSilent) {
  const swallow = () => isSilent();
  for (const id of [
    { final: "c" }, { prefix: ">", final: "c" }, { prefix: "=", final: "c" },
    { final: "n" }, { prefix: "?", final: "n" }, { final: "x" },
    { prefix: ">", final: "q" },
    { intermediates: "$", final: "p" }, { prefix: "?", intermediates: "$", final: "p" },
  ]) parser.registerCsiHandler(id, swallow);
  parser.registerCsiHandler({ final: "t" }, (params) => isSilent() && REPORTS.has(Number(params[0])));
  for (const id of [{ intermediates: "$", final: "q" }, { intermediates: "+", final: "q" }]) {
    parser.registerDcsHandler(id, swallow);
  }
  for (const number of [4, 10, 11, 12]) {
    parser.registerOscHandler(number, (data) => isSilent() && data.split(";").includes("?"));
  }
  parser.registerOscHandler(52, () => true); // no program reads or writes a person's clipboard
}
