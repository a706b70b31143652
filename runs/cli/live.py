"""The terminal's moving last line: what the run does right now, under the lines that are already told."""

from typing import TextIO

from rich.console import Console, Group
from rich.live import Live
from rich.spinner import Spinner
from rich.text import Text

from runs.cli.output import PlainLines
from runs.cli.plain_text import safe
from runs.cli.telling import Teller

REFRESH_PER_SECOND = 10


class LiveLines(PlainLines):
    """Plain lines that scroll up, above a spinner with the state and the text line that is being written."""

    def __init__(self, out: TextIO, err: TextIO, teller: Teller) -> None:
        super().__init__(out, err, teller)
        self.console = Console(file=out, highlight=False, markup=False, emoji=False)
        self.spinner = Spinner("dots")
        self.live = Live(
            get_renderable=self._picture, console=self.console, refresh_per_second=REFRESH_PER_SECOND, transient=True
        )
        self.live.start()

    def write(self, line: str) -> None:
        """Scroll one line in above the moving part."""
        self.console.print(Text(safe(line)), soft_wrap=True)

    def note(self, line: str) -> None:
        """Say it among the lines: stderr is the same screen, and would tear the moving part."""
        self.console.print(Text(safe(line), style="dim"), soft_wrap=True)

    def close(self) -> None:
        """Take the moving part away."""
        self.live.stop()

    def _picture(self) -> Group:
        width = max(self.console.width - 1, 10)
        self.spinner.update(text=Text((self.teller.state or "Following")[:width], style="dim"))
        return Group(Text(self.teller.current_line()[-width:], no_wrap=True), self.spinner)
