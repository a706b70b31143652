"""Checks again, while streams are open, whether their readers may still read: all of them at once, each 5 s."""

import asyncio
import logging

from django.db import Error

from runs.conf import limits
from streaming.access import check_again
from streaming.hub import Hub

logger = logging.getLogger(__name__)


async def guard(hub: Hub) -> None:
    """Close the streams of people who signed out, were deactivated or lost their membership or a right; for ever."""
    while True:
        await asyncio.sleep(limits().access_check_seconds)
        whos = {reader.who for reader in hub.readers if reader.who is not None}
        if not whos:
            continue
        try:
            verdicts = await asyncio.to_thread(check_again, whos)
        except Error as error:
            logger.warning("guard.database_away", extra={"error": repr(error)})
            continue
        for reader in tuple(hub.readers):
            ending = verdicts.get(reader.who)
            if ending is not None:
                reader.end(ending)
