"""The worker's end of a ward's socket."""

import asyncio
import json
import socket

from tools.processes.links import WardLink


async def test_the_last_word_of_a_ward_counts_although_it_ended_without_reading_ours() -> None:
    ours, wards = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    link = WardLink(ours, program="sleep")
    link.send({"stop": 0})
    wards.send(json.dumps({"ward": 1}).encode())
    wards.send(json.dumps({"gone": True}).encode())
    wards.close()  # with our message unread: the kernel tells that first
    try:
        assert await asyncio.wait_for(link.gone, 60) == {"gone": True}
        assert await asyncio.wait_for(link.started, 60) == 0
    finally:
        link.close()


async def test_a_ward_that_dies_without_a_word_has_no_proof() -> None:
    ours, wards = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    link = WardLink(ours, program="sleep")
    wards.send(json.dumps({"ward": 1}).encode())
    wards.close()
    try:
        assert await asyncio.wait_for(link.gone, 60) is None
    finally:
        link.close()
