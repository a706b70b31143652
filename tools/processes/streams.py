"""The three pipes of one command, and who closes which end."""

import contextlib
import os

from tools.processes.output import Capture, OnOutput, feed


class Streams:
    """stdin, stdout and stderr of one command. `close` is safe at any point and more than once."""

    def __init__(self, *, stdin: bytes, limit_bytes: int, on_output: OnOutput | None) -> None:
        self._stdin = stdin
        self._feed_fd: int | None = None
        self.child_fds: list[int] = []
        # Without input the command reads /dev/null: an open pipe would make it wait for ever.
        if stdin:
            child_end, self._feed_fd = os.pipe()  # close-on-exec, as all that Python opens
            os.set_blocking(self._feed_fd, False)
        else:
            child_end = os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC)
        self.child_fds.append(child_end)
        self.out = self._open_capture("stdout", limit_bytes, on_output)
        self.err = self._open_capture("stderr", limit_bytes, on_output)

    def _open_capture(self, stream: str, limit_bytes: int, on_output: OnOutput | None) -> Capture:
        reader, writer = os.pipe()
        os.set_blocking(reader, False)
        self.child_fds.append(writer)
        return Capture(reader, stream=stream, limit_bytes=limit_bytes, on_output=on_output)

    def close_child_ends(self) -> None:
        """Close the command's ends here, so that EOF means that the command's side is closed."""
        while self.child_fds:
            os.close(self.child_fds.pop())

    async def feed_stdin(self) -> None:
        """Write the input, then close it."""
        if self._feed_fd is not None:
            fd, self._feed_fd = self._feed_fd, None
            await feed(fd, self._stdin)

    def end(self) -> None:
        """Say that the tree is gone; the captures then stop at what is in the pipes."""
        self.out.end()
        self.err.end()

    def close(self) -> None:
        self.close_child_ends()
        if self._feed_fd is not None:
            with contextlib.suppress(OSError):
                os.close(self._feed_fd)
            self._feed_fd = None
        self.out.close()
        self.err.close()
