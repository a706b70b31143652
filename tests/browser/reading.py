"""Reading a run page for comparison: what each step's line and card say, without clocks and hidden parts."""

READ = """(root) => {
  const plain = (e) => {
    const copy = e.cloneNode(true);
    for (const gone of copy.querySelectorAll("[hidden], [data-slot=took], details.raw, time, svg")) gone.remove();
    return copy.textContent.replace(/\\s+/g, " ").trim().replace(/ Not a final answer\\.| at [^ ]*\\.?(?= Not)/g, "")
      .replace(/Interrupted.*$/, "Interrupted");
  };
  const part = (e) => ({
    id: e.id || e.querySelector("a")?.getAttribute("href"), step: e.dataset.step, state: e.dataset.state,
    kind: e.dataset.kind ?? null, depth: e.dataset.depth ?? null, busy: e.getAttribute("aria-busy"),
    open: e.querySelector("details.more")?.open ?? null, text: plain(e),
    tones: [...e.querySelectorAll("[data-tone]:not([hidden])")].map((t) => `${t.dataset.slot}:${t.dataset.tone}`),
    icons: [...e.querySelectorAll("header use, a > span use")].map((u) => u.getAttribute("href")),
    messages: [...e.querySelectorAll("[data-message]")].map((m) => [m.dataset.message, m.dataset.state,
      m.querySelector(".words").textContent]),
  });
  return [...root.querySelectorAll("#steps > *, #cards > *")].map(part);
}"""

EXTRACT = f"() => ({READ})(document)"
EXTRACT_SERVED = f"""async () => {{
  const text = await (await fetch(location.href)).text();
  return ({READ})(new DOMParser().parseFromString(text, "text/html"));
}}"""
