"""Fetches one page: each address is checked after DNS, and the connection goes to the address that was checked.

URL -> resolve -> check every address -> connect to one of them (Host and SNI say the name) -> body, bounded
 ^------------------------------------- redirect, at most 5 ---------------------------------------'
"""

import asyncio
import socket
import zlib
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

import httpx

from tools.builtin.addresses import AddressPolicy
from tools.errors import ToolError
from tools.trust import trust

MOST_REDIRECTS = 5
BODY_BYTES = 2 * 1024 * 1024
_REQUEST_TIMEOUT = httpx.Timeout(20.0, connect=5.0)
_HEADERS = {"User-Agent": "Outlive/0.1", "Accept": "text/html, text/*;q=0.9, */*;q=0.5", "Accept-Encoding": "gzip"}

type Resolver = Callable[[str, int], Awaitable[list[str]]]
"""Gets host and port, returns the addresses as text."""


@dataclass(frozen=True)
class Page:
    """What came back. body: decoded from gzip, the first BODY_BYTES of it."""

    url: str
    status: int
    content_type: str
    charset: str
    body: bytes
    truncated: bool


async def resolve(host: str, port: int) -> list[str]:
    """Ask the system's resolver. Also the odd forms of IPv4 ("127.1", "0x7f000001") come back as plain addresses."""
    try:
        found = await asyncio.get_running_loop().getaddrinfo(host, port, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError) as error:
        raise ToolError(f"{host} has no address: {error}", code="host_not_found", retryable=True) from None
    return list(dict.fromkeys(str(entry[4][0]) for entry in found))


async def fetch_page(url: str, *, policy: AddressPolicy, resolver: Resolver = resolve) -> Page:
    """Return the page at `url` after at most MOST_REDIRECTS redirects.

    Raises: ToolError (a refused address, a bad URL, no answer); the caller bounds the time.
    """
    target = _parse(url)
    for _ in range(MOST_REDIRECTS + 1):
        answer = await _get(target, policy, resolver)
        if isinstance(answer, Page):
            return answer
        target = _parse(str(target.join(answer)))
    raise ToolError(f"{url} redirects more than {MOST_REDIRECTS} times.", code="too_many_redirects")


def _parse(url: str) -> httpx.URL:
    try:
        target = httpx.URL(url)
    except httpx.InvalidURL as error:
        raise ToolError(f"{url[:200]!r} is no URL: {error}", code="bad_url") from None
    if target.scheme not in ("http", "https") or not target.host:
        raise ToolError(f"{url[:200]!r} is not an http or https address.", code="bad_url")
    if target.userinfo:
        raise ToolError("The URL carries a name or a password; that is refused.", code="bad_url")
    return target


async def _get(target: httpx.URL, policy: AddressPolicy, resolver: Resolver) -> Page | str:
    """Return the page, or where it redirects to."""
    port = target.port or (443 if target.scheme == "https" else 80)
    addresses = policy.check(target.host, await resolver(target.host, port))
    if not addresses:
        raise ToolError(f"{target.host} has no address.", code="host_not_found", retryable=True)
    # trust_env off: a proxy from the environment would resolve the name again, unchecked.
    async with httpx.AsyncClient(trust_env=False, timeout=_REQUEST_TIMEOUT, headers=_HEADERS, verify=trust()) as client:
        for address in addresses:
            request = client.build_request(
                "GET",
                target.copy_with(host=address),
                headers={"Host": target.netloc.decode("ascii")},
                extensions={"sni_hostname": target.raw_host.decode("ascii")},
            )
            try:
                response = await client.send(request, stream=True)
            except (httpx.ConnectError, httpx.ConnectTimeout) as error:
                failure: httpx.HTTPError = error
                continue
            except httpx.HTTPError as error:
                raise _no_answer(target, error) from error
            try:
                return await _read(target, response)
            except httpx.HTTPError as error:
                raise _no_answer(target, error) from error
            finally:
                await response.aclose()
    raise _no_answer(target, failure) from failure


def _no_answer(target: httpx.URL, error: httpx.HTTPError) -> ToolError:
    what = f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
    return ToolError(f"{target.host} did not answer ({what}).", code="no_answer", retryable=True)


async def _read(target: httpx.URL, response: httpx.Response) -> Page | str:
    if response.has_redirect_location:
        return response.headers["location"]
    body, truncated = await _read_bounded(response)
    return Page(
        url=str(target),
        status=response.status_code,
        content_type=response.headers.get("content-type", "").partition(";")[0].strip().lower(),
        charset=response.charset_encoding or "utf-8",
        body=body,
        truncated=truncated,
    )


async def _read_bounded(response: httpx.Response) -> tuple[bytes, bool]:
    """Return at most BODY_BYTES. Unpacks by itself, because httpx unpacks a chunk whole: a bomb fits into one."""
    encoding = response.headers.get("content-encoding", "identity").strip().lower()
    if encoding not in ("identity", "gzip", "x-gzip", ""):
        raise ToolError(f"The answer is packed as {encoding}, which was not asked for.", code="bad_encoding")
    unpack = zlib.decompressobj(zlib.MAX_WBITS | 16) if encoding.endswith("gzip") else None
    body = bytearray()
    async for chunk in response.aiter_raw():
        room = BODY_BYTES + 1 - len(body)
        try:
            body += chunk[:room] if unpack is None else unpack.decompress(chunk, room)
        except zlib.error as error:
            raise ToolError(f"The answer's gzip is broken: {error}", code="bad_encoding") from None
        if len(body) > BODY_BYTES:
            return bytes(body[:BODY_BYTES]), True
    if unpack is not None and not unpack.eof:
        raise ToolError("The answer's gzip ends too early.", code="bad_encoding")
    return bytes(body), False
