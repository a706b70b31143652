"""The HTTP side of the terminal: one request, one answer or one clear problem. It repeats nothing by itself."""

import json
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import dataclass
from typing import Any

from runs.cli.plain_text import safe_line
from runs.cli.problems import CliProblem, Refused, Unreachable, Usage
from runs.cli.settings import Target
from runs.cli.slim_httpx import httpx

API = "/api/v1"
CONNECT_SECONDS = 5.0
ANSWER_SECONDS = 30.0
MOST_BYTES = 64 << 20  # of one answer; a list of 100 runs with all their input has a tenth of it


@dataclass(frozen=True, slots=True)
class Answer:
    """A success."""

    status: int
    body: Any
    headers: Mapping[str, str]


class ApiClient:
    """A connection to one server."""

    def __init__(self, target: Target, transport: httpx.BaseTransport | None = None) -> None:
        self.target = target
        self.http = httpx.Client(
            base_url=target.base_url + API,
            headers={"Authorization": f"Bearer {target.token}", "User-Agent": "outlive-cli"},
            timeout=httpx.Timeout(ANSWER_SECONDS, connect=CONNECT_SECONDS),
            transport=transport,
            follow_redirects=False,
            trust_env=True,
        )

    def close(self) -> None:
        """Close the sockets."""
        self.http.close()

    def call(
        self,
        method: str,
        path: str,
        *,
        body: Any = None,
        params: Mapping[str, str] | None = None,
        headers: Mapping[str, str] | None = None,
        files: list[Any] | None = None,
        lost: str = "",
    ) -> Answer:
        """Ask once.

        Args: lost: what it means when the request was sent and no answer came (it may have been carried out).
        Raises: Refused (4xx), Unreachable (no connection, no answer, 5xx), Usage (nothing was sent).
        """
        with (
            self.translated(lost),
            closing(self._send(method, path, json=body, params=params, headers=headers, files=files)) as streamed,
        ):
            response = read_bounded(streamed)
        return Answer(response.status_code, read_body(response), response.headers)

    def _send(self, method: str, path: str, **said: Any) -> httpx.Response:
        """Send a request, and return its answer as it begins. Raises: Usage, and httpx's errors."""
        try:
            request = self.http.build_request(method, path, **said)
        except ValueError as error:  # a number that JSON has not, a header in other letters
            raise Usage(f"No request can say this ({error}). Nothing was sent.") from None
        return self.http.send(request, stream=True)

    @contextmanager
    def translated(self, lost: str = "") -> Iterator[None]:
        """Turn httpx's errors into ours."""
        try:
            yield
        except (httpx.ConnectError, httpx.ConnectTimeout) as error:
            raise Unreachable(
                f"No connection to {self.target.base_url} ({_why(error)}). Nothing was sent. "
                "Is the server up (`make up`)? Else set OUTLIVE_BASE_URL."
            ) from None
        except KeyboardInterrupt:
            if not lost:
                raise
            raise Unreachable(f"Interrupted before the answer came. {lost}", code="interrupted") from None
        except (httpx.UnsupportedProtocol, httpx.InvalidURL):
            raise Unreachable(f"{self.target.base_url} is no address of a server.") from None
        except (httpx.TransportError, httpx.DecodingError) as error:
            text = f"{self.target.base_url} gave no whole answer ({_why(error)}). {lost}".rstrip()
            raise Unreachable(text, code="no_answer") from None


def read_bounded(response: httpx.Response) -> httpx.Response:
    """Read a whole answer, but none without an end.

    Raises: Unreachable, httpx.TransportError, httpx.DecodingError.
    """
    content = bytearray()
    for piece in response.iter_bytes():
        content += piece
        if len(content) > MOST_BYTES:
            raise Unreachable(f"{response.url.host} answered with more than Outlive ever says.", code="no_outlive")
    headers = httpx.Headers([h for h in response.headers.multi_items() if h[0].lower() != "content-encoding"])
    return httpx.Response(response.status_code, headers=headers, content=bytes(content), request=response.request)


def read_body(response: httpx.Response) -> Any:
    """Read a JSON answer.

    Raises: Refused, Unreachable.
    """
    if response.is_success:
        if response.status_code == 204:
            return None
        try:
            return response.json()
        except (ValueError, RecursionError):
            raise Unreachable(
                f"{response.url.host} did not answer as Outlive does. Is the address right?", code="no_outlive"
            ) from None
    raise problem_of(response)


def problem_of(response: httpx.Response) -> CliProblem:
    """Make the problem that an answer without success stands for."""
    try:
        error = json.loads(response.content)["error"]
        code, message, param = safe_line(str(error["code"])), safe_line(str(error["message"]), 500), error["param"]
    except (ValueError, KeyError, TypeError, RecursionError):
        code, message, param = "no_outlive", f"The server answered {response.status_code}.", None
    if response.status_code >= 500 or response.status_code == 429:
        return Unreachable(message, code=code)
    return Refused(response.status_code, code, message, safe_line(param) if isinstance(param, str) else None)


def _why(error: Exception) -> str:
    return safe_line(str(error), 120) or type(error).__name__
