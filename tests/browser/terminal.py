"""The page of a shell in the hand of a test: its connection, what its terminal shows, and typing into it."""

import re

from playwright.sync_api import Page, WebSocketRoute, expect

from tests.browser.chromium import Visitor
from tests.stack import wait_until

SECONDS = 60.0
# All rows with their text, where the cursor is, and which buffer: what a person would see.
SCREEN = """() => {
  const { term } = outliveShell.terminal, buffer = term.buffer.active, rows = [];
  for (let y = buffer.baseY; y < buffer.baseY + term.rows; y += 1) {
    rows.push(buffer.getLine(y)?.translateToString(true).trimEnd() ?? "");
  }
  return [buffer.type, buffer.cursorX, buffer.cursorY, ...rows].join("\\n");
}"""
# The same with colours and everything else that the terminal knows, as the sequences that would paint it.
SERIALISED = """async () => {
  const { SerializeAddon } = await import("/static/xterm/addon-serialize/addon-serialize.mjs");
  const { term } = outliveShell.terminal;
  outliveShell.serializer ??= new SerializeAddon();
  if (!outliveShell.isReady) { term.loadAddon(outliveShell.serializer); outliveShell.isReady = true; }
  return outliveShell.serializer.serialize({ scrollback: 0, excludeModes: true });
}"""
BUFFER = """() => {
  const buffer = outliveShell.terminal.term.buffer.active, rows = [];
  for (let i = 0; i < buffer.length; i += 1) rows.push(buffer.getLine(i).translateToString(true));
  return rows.join("\\n");
}"""


class Wire:
    """The way of a page's sockets: cut on both sides at once, whatever was on the way is lost."""

    def __init__(self, page: Page) -> None:
        self.is_down = False
        self.opened: list[tuple[WebSocketRoute, WebSocketRoute]] = []
        self.typed = bytearray()  # what the page sent as input
        self.is_slow = False  # a size that the page asks for waits for much output to come first
        self.sizes: list[tuple[int, str]] = []  # (outputs that are still to come, the frame)
        page.route_web_socket(re.compile("/ws/v1/shells/"), self._open)

    def _open(self, route: WebSocketRoute) -> None:
        if self.is_down:
            route.close(code=1013)
            return
        server = route.connect_to_server()
        self.opened.append((route, server))
        server.on_message(lambda message: self._give(route, server, message))
        route.on_message(lambda message: self._pass(server, message))

    def _pass(self, server: WebSocketRoute, message: str | bytes) -> None:
        if self.is_down:
            return
        if isinstance(message, bytes) and message[0] == 0:
            self.typed += message[9:]
        if self.is_slow and isinstance(message, str) and '"resize"' in message:
            self.sizes.append((40, message))
        else:
            server.send(message)

    def _give(self, route: WebSocketRoute, server: WebSocketRoute, message: str | bytes) -> None:
        if self.is_down:
            return
        route.send(message)
        if isinstance(message, bytes):
            self.sizes = [(left - 1, size) for left, size in self.sizes]
            for _, size in [held for held in self.sizes if held[0] <= 0]:
                server.send(size)
            self.sizes = [held for held in self.sizes if held[0] > 0]

    def down(self) -> None:
        """Let nothing through from now on."""
        self.is_down = True
        route, server = self.opened[-1]
        server.close()
        route.close(code=1013)

    def cut(self, page: Page, milliseconds: int) -> None:
        """Let nothing through for so long."""
        self.down()
        page.wait_for_timeout(milliseconds)
        self.is_down = False


def opened(newcomer: Visitor, command: str = "") -> Page:
    """Open a shell, and wait until it can be typed into."""
    page = newcomer.open("/shells/")
    page.get_by_label("Command").fill(command)
    page.get_by_role("button", name="Open a shell").click()
    page.wait_for_url("**/shells/shell_*/")
    return in_control(page)


def in_control(page: Page) -> Page:
    expect(page.locator("#pilot")).to_have_text("You are in control", timeout=SECONDS * 1000)
    page.wait_for_function("() => !outliveShell.terminal.isReplaying")
    return page


def address(page: Page) -> str:
    return re.sub("^http://[^/]+", "", page.url)


def see(page: Page, text: str, times: int = 1) -> None:
    """Wait until a line of exactly this text is there so many times, and no more."""

    def count() -> int:
        return page.evaluate(BUFFER).split("\n").count(text)

    wait_until(lambda: count() >= times, seconds=SECONDS, what=lambda: f"{text!r} in {page.evaluate(BUFFER)[-800:]!r}")
    assert count() == times, page.evaluate(BUFFER)[-800:]


def type_echo(page: Page, word: str) -> None:
    """Type an echo, whose answer comes exactly once."""
    page.keyboard.type(f"echo {word}-$((40+2))\n")
    see(page, f"{word}-42")


def same(first: Page, second: Page, script: str) -> None:
    """Wait until both show the same: what one has painted may still be on its way to the other."""
    wait_until(lambda: first.evaluate(script) == second.evaluate(script), seconds=SECONDS,
               what=lambda: f"one screen, {first.evaluate(script)!r} and {second.evaluate(script)!r},")  # fmt: skip


def prompted(page: Page) -> None:
    """Wait until the shell asks for the next command."""
    wait_until(lambda: page.evaluate(SCREEN).rstrip().endswith("$"), seconds=SECONDS,
               what=lambda: f"a prompt on {page.evaluate(SCREEN)!r}")  # fmt: skip


def see_some(page: Page, text: str) -> None:
    """Wait until the text is somewhere on the screen."""
    wait_until(lambda: text in page.evaluate(SCREEN), seconds=SECONDS,
               what=lambda: f"{text!r} on {page.evaluate(SCREEN)!r}")  # fmt: skip
