// A paste of several lines into a program that runs each line as it comes is asked for first. Control characters are
// left out of any: some run a line like Enter, and ESC [201~ ends the marks by which a program knows a paste as a whole.

export const cleaned = (text) => text.replace(/[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f]/g, "");

export function isRisky(text, wantsWholePastes) {
  return !wantsWholePastes && /[\r\n]/.test(text);
}

export const linesOf = (text) => text.replace(/\r\n?/g, "\n").replace(/\n$/, "").split("\n");

export class PasteGuard {
  constructor(dialog, { terminal, say }) {
    Object.assign(this, { dialog, terminal, say });
    terminal.holder.addEventListener("paste", (event) => this.#onPaste(event), { capture: true });
    dialog.addEventListener("close", () => {
      if (dialog.returnValue === "paste") terminal.paste(this.text);
      if (dialog.returnValue === "join") terminal.paste(linesOf(this.text).join(" "));
      dialog.returnValue = this.text = "";
      terminal.term.focus();
    });
  }

  #onPaste(event) {
    const brought = event.clipboardData?.getData("text/plain") ?? "";
    const text = cleaned(brought);
    const asks = isRisky(text, this.terminal.wantsWholePastes);
    if (!asks && text === brought) return;
    event.preventDefault();
    event.stopPropagation();
    if (!asks) return this.terminal.paste(text);
    this.text = text;
    this.say(linesOf(text));
    this.dialog.showModal();
  }
}
