// Keys that phones lack: Esc, Tab, Ctrl (for the next key), arrows. And what Ctrl makes of a letter.

const ARROWS = { up: "A", down: "B", right: "C", left: "D" };

export function keyText(name, isApplicationMode) {
  if (name === "esc") return "\x1b";
  if (name === "tab") return "\t";
  return ARROWS[name] ? `\x1b${isApplicationMode ? "O" : "["}${ARROWS[name]}` : "";
}

// One key with Ctrl held: a letter, or one of @ [ \ ] ^ _ and space.
export function withControl(bytes) {
  if (bytes.length !== 1) return bytes;
  const byte = bytes[0] === 0x20 ? 0 : bytes[0] & 0xdf;
  if (byte === 0 || (byte >= 0x40 && byte <= 0x5f)) return Uint8Array.of(byte & 0x1f);
  return bytes;
}

export class KeyBar {
  constructor(bar, { send, isApplicationMode, onControl }) {
    this.bar = bar;
    this.isControl = false;
    this.control = bar.querySelector("[data-key=ctrl]");
    bar.addEventListener("pointerdown", (event) => event.preventDefault()); // the terminal, and its keyboard, keep the focus
    bar.addEventListener("click", (event) => {
      const name = event.target.closest("[data-key]")?.dataset.key;
      if (name === "ctrl") this.hold(!this.isControl);
      else if (name) send(keyText(name, isApplicationMode()));
      onControl();
    });
  }

  hold(isHeld) {
    this.isControl = isHeld;
    this.control.setAttribute("aria-pressed", String(isHeld));
  }

  // What was typed, with Ctrl where it was held.
  apply(bytes) {
    if (!this.isControl) return bytes;
    this.hold(false);
    return withControl(bytes);
  }
}
