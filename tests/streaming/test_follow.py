"""follow(): cursors of every kind, history and live without a hole, with a hub on the real database and Redis."""

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from contextlib import aclosing, asynccontextmanager
from typing import Any
from uuid import UUID

import pytest
from asgiref.sync import sync_to_async
from django.conf import settings

from runs.access import Actor
from runs.compaction import MAX_SPAN
from runs.conf import limits
from runs.database import conninfo
from runs.decisions.core import Fact
from runs.models import Event, Run
from runs.selectors import view_of
from streaming.access import Who
from streaming.budget import TRANSPORT_BYTES
from streaming.follow import Opening, follow, judge
from streaming.hub import BEAT_TURNS, DRAIN, Hub, TooManyStreams
from streaming.protocol import Close, Cursor, GapReason
from streaming.reader import SLOW, Reader
from streaming.topics import Stream
from streaming.wires import TEXT
from tests import builders
from tests.streaming.writing import deltas, emit, end, join_deltas, start_new_attempt, stored

pytestmark = pytest.mark.django_db(transaction=True)
in_thread = sync_to_async


class Following:
    """Reads follow() as a client would: applies frames, and asks for more only then."""

    def __init__(self, hub: Hub, opening: Opening) -> None:
        self.reader = Reader(TEXT)
        self.items = follow(hub, opening, self.reader)
        self.controls: list[dict[str, Any]] = []
        self.events: list[dict[str, Any]] = []

    async def next(self) -> list[dict[str, Any]] | None:
        try:
            item = await asyncio.wait_for(anext(self.items), 60)
        except StopAsyncIteration:
            return None
        message = json.loads(item["text"])
        frames = message if isinstance(message, list) else [message]
        for frame in frames:
            (self.events if "seq" in frame else self.controls).append(frame)
        return frames

    async def until(self, kind: str) -> dict[str, Any]:
        while True:
            frames = await self.next()
            assert frames is not None, f"ended before {kind}: {self.kinds}"
            for frame in frames:
                if frame["type"] == kind:
                    return frame

    async def until_seq(self, seq: int) -> None:
        while not self.events or self.events[-1]["seq"] < seq:
            assert await self.next() is not None, self.kinds

    async def rest(self) -> None:
        while await self.next() is not None:
            pass

    @property
    def kinds(self) -> list[str]:
        return [control["type"] for control in self.controls]

    @property
    def seqs(self) -> list[int]:
        return [event["seq"] for event in self.events]


@asynccontextmanager
async def a_hub(redis_url: str | None = None) -> AsyncIterator[Hub]:
    async with Hub.running(redis_url or settings.REDIS_URL, dsn=conninfo()) as hub:
        await until(lambda: hub.subscriptions.is_connected or redis_url is not None)
        yield hub


async def until(is_true: Callable[[], bool]) -> None:
    async with asyncio.timeout(60):
        while not is_true():  # noqa: ASYNC110 - what is waited for has no event of its own
            await asyncio.sleep(0.005)


@asynccontextmanager
async def a_follower(hub: Hub, run: Run, **opening: Any) -> AsyncIterator[Following]:
    following = Following(hub, Opening(run.pk, run.stream_id, **opening))
    async with aclosing(following.items):
        yield following


@pytest.fixture
def run(owner: Actor) -> Run:
    """A queued run with 10 events."""
    run = builders.a_run(owner)
    emit(run, *deltas(9), rings=False)
    return run


def at(run: Run, seq: int) -> Cursor:
    return Cursor(run.stream_id, seq)


async def test_history_then_live_in_one_sequence(run: Run) -> None:
    async with a_hub() as hub, a_follower(hub, run) as following:
        ready = await following.until("ready")
        assert (ready["head_seq"], ready["earliest_seq"], ready["status"]) == (10, 1, "queued")
        assert (await following.until("caught_up"))["cursor"] == str(at(run, 10))
        await in_thread(emit)(run, *deltas(5))
        await following.until_seq(15)
        assert following.seqs == list(range(1, 16))
        assert hub.counts["pages"] == 1  # live events came with the doorbell, not from the database


async def test_a_reader_that_leaves_in_the_middle_of_a_send_holds_nothing_any_more(run: Run) -> None:
    """Its message was handed to the transport and never taken: an eviction, a lost connection."""
    async with a_hub() as hub:
        async with a_follower(hub, run) as following:
            await following.next()
            assert len(hub.sending) == 1
        assert (len(hub.sending), hub.readers) == (0, set())


async def test_a_cursor_gets_exactly_what_follows_it(run: Run) -> None:
    async with a_hub() as hub, a_follower(hub, run, after=at(run, 7)) as following:
        await following.until("caught_up")
        assert following.seqs == [8, 9, 10]


async def test_a_cursor_at_the_head_gets_nothing_and_is_told_so(run: Run) -> None:
    async with a_hub() as hub, a_follower(hub, run, after=at(run, 10)) as following:
        await following.until("caught_up")
        assert following.kinds == ["ready", "caught_up"]
        assert following.seqs == []


async def test_the_load_of_a_page_is_a_snapshot_without_a_gap(run: Run) -> None:
    async with a_hub() as hub, a_follower(hub, run, wants_snapshot=True) as following:
        await following.until("caught_up")
        assert following.kinds == ["ready", "snapshot", "caught_up"]
        snapshot = following.controls[1]
        assert snapshot["cursor"] == str(at(run, 10))
        assert (snapshot["view"], 10) == await in_thread(view_of)(run)
        await in_thread(emit)(run, *deltas(1))
        await following.until_seq(11)
        assert following.seqs == [11]


@pytest.mark.parametrize(
    ("cursor", "reason"),
    [
        (lambda run: Cursor(run.stream_id, 2), "trimmed"),
        (lambda run: Cursor(run.stream_id, 11), "ahead"),
        (lambda run: Cursor(UUID(int=run.pk.int + 1), 3), "other_stream"),
        (lambda run: Cursor(UUID(int=0), 0), "other_stream"),
    ],
)
async def test_a_cursor_that_cannot_be_continued_gets_a_gap_and_a_snapshot(
    run: Run, cursor: Callable[[Run], Cursor], reason: str
) -> None:
    await in_thread(Run.objects.filter(pk=run.pk).update)(floor_seq=5)
    async with a_hub() as hub, a_follower(hub, run, after=cursor(run)) as following:
        await following.until("caught_up")
        assert following.kinds == ["ready", "gap", "snapshot", "caught_up"]
        gap = following.controls[1]
        assert (gap["reason"], gap["requested"], gap["earliest_seq"]) == (reason, str(cursor(run)), 5)
        assert following.seqs == []
        await in_thread(emit)(run, *deltas(2))
        await following.until_seq(12)
        assert following.seqs == [11, 12]


async def test_a_cursor_right_below_the_floor_is_still_good(run: Run) -> None:
    await in_thread(Run.objects.filter(pk=run.pk).update)(floor_seq=5)
    async with a_hub() as hub, a_follower(hub, run, after=at(run, 4)) as following:
        await following.until("caught_up")
        assert "gap" not in following.kinds
        assert following.seqs == [5, 6, 7, 8, 9, 10]


async def test_from_the_start_of_a_trimmed_stream_is_a_gap(run: Run) -> None:
    await in_thread(Run.objects.filter(pk=run.pk).update)(floor_seq=5)
    async with a_hub() as hub, a_follower(hub, run) as following:
        await following.until("caught_up")
        assert following.controls[1]["reason"] == "trimmed"
        assert following.controls[1]["requested"] is None


async def test_rows_that_vanished_above_the_cursor_are_a_gap_and_never_a_silent_hole(run: Run) -> None:
    await in_thread(Event.objects.filter(stream_id=run.stream_id, seq=6).delete)()
    async with a_hub() as hub, a_follower(hub, run, after=at(run, 3)) as following:
        await following.until("caught_up")
        assert following.kinds == ["ready", "gap", "snapshot", "caught_up"]
        assert following.seqs == []


async def test_a_compacted_text_comes_as_one_frame_whose_seq_is_its_last(run: Run) -> None:
    assert await in_thread(join_deltas)(run) == [1, 10]
    for after, seqs in ((None, [1, 10]), (at(run, 1), [10]), (at(run, 10), [])):
        async with a_hub() as hub, a_follower(hub, run, after=after) as following:
            await following.until("caught_up")
            assert (following.kinds, following.seqs) == (["ready", "caught_up"], seqs)
            assert following.controls[-1]["cursor"] == str(at(run, 10))


@pytest.mark.parametrize("seq", [2, 9])
async def test_a_cursor_inside_of_a_compacted_text_gets_a_gap_and_a_snapshot(run: Run, seq: int) -> None:
    await in_thread(join_deltas)(run)
    async with a_hub() as hub, a_follower(hub, run, after=at(run, seq)) as following:
        await following.until("caught_up")
        assert following.kinds == ["ready", "gap", "snapshot", "caught_up"]
        assert (following.controls[1]["reason"], following.seqs) == ("trimmed", [])
        await in_thread(emit)(run, *deltas(1))
        await following.until_seq(11)
        assert following.seqs == [11]


async def test_a_reader_in_the_middle_of_a_text_that_is_compacted_meanwhile_is_told(run: Run) -> None:
    async with a_hub() as hub, a_follower(hub, run) as following:
        await following.until("caught_up")
        await in_thread(emit)(run, *deltas(5), rings=False)
        await in_thread(join_deltas)(run)  # 2 to 15, and the reader stands at 10
        assert (await following.until("gap"))["reason"] == "slow"
        assert (await following.until("caught_up"))["cursor"] == str(at(run, 15))
        assert following.seqs == list(range(1, 11))


async def test_a_page_holds_the_longest_compacted_text_whole(run: Run) -> None:
    """Its row is at its last seq, as far behind the cursor as a page looks."""
    await in_thread(emit)(run, *deltas(2 * MAX_SPAN), rings=False)
    assert await in_thread(join_deltas)(run) == [1, 1001, 2001, 2010]
    async with a_hub() as hub, a_follower(hub, run) as following:
        await following.until("caught_up")
        assert (following.kinds, following.seqs) == (["ready", "caught_up"], [1, 1001, 2001, 2010])


async def test_everything_expired_under_a_reader_is_a_gap_and_no_endless_search(run: Run) -> None:
    """An empty page says "nothing new" only if the head is the cursor (RULES H18)."""
    async with a_hub() as hub, a_follower(hub, run) as following:
        await following.until("caught_up")
        await in_thread(emit)(run, *deltas(5), rings=False)
        await in_thread(Event.objects.filter(stream_id=run.stream_id).delete)()
        await in_thread(Run.objects.filter(pk=run.pk).update)(floor_seq=16)
        gap = await following.until("gap")
        assert (gap["reason"], gap["earliest_seq"]) == ("slow", 16)
        assert (await following.until("caught_up"))["cursor"] == str(at(run, 15))


async def test_a_follower_that_falls_below_the_floor_is_told(run: Run) -> None:
    """The reader is slow; meanwhile retention passes it by."""
    async with a_hub() as hub, a_follower(hub, run) as following:
        await following.until("caught_up")
        await in_thread(emit)(run, *deltas(5), rings=False)
        await in_thread(Event.objects.filter(stream_id=run.stream_id, seq__lte=13).delete)()
        await in_thread(Run.objects.filter(pk=run.pk).update)(floor_seq=14)
        assert (await following.until("gap"))["reason"] == "slow"
        await following.until("caught_up")
        assert following.controls[-1]["cursor"] == str(at(run, 15))


@pytest.mark.parametrize("seq", [0, 5, 10])
async def test_an_ended_stream_gives_the_rest_and_closes(run: Run, seq: int) -> None:
    await in_thread(end)(run, rings=False)
    numbers = await in_thread(stored)(run)
    async with a_hub() as hub, a_follower(hub, run, after=at(run, seq)) as following:
        await following.rest()
        assert following.seqs == numbers[seq:]
        assert following.events[-1]["type"] == "run.cancelled"
        closing = following.controls[-1]
        assert (closing["type"], closing["code"], closing["reconnect"]) == ("closing", Close.DONE, False)


async def test_the_end_is_noticed_at_once_although_only_a_doorbell_told_of_it(run: Run) -> None:
    async with a_hub() as hub, a_follower(hub, run) as following:
        await following.until("caught_up")
        await in_thread(end)(run)
        await following.until("run.cancelled")
        looks = hub.counts["looks"]
        await following.rest()
        assert following.controls[-1]["code"] == Close.DONE
        assert hub.counts["looks"] <= looks + 2


async def test_the_end_is_noticed_although_no_doorbell_came(run: Run) -> None:
    async with a_hub() as hub, a_follower(hub, run) as following:
        await following.until("caught_up")
        await in_thread(end)(run, rings=False)
        await following.rest()
        assert following.seqs == await in_thread(stored)(run)


async def test_a_tail_stays_past_the_end_for_the_epilogue_and_a_new_attempt(run: Run) -> None:
    """No doorbell comes for either: the poll of the row is what makes it certain."""
    async with a_hub() as hub, a_follower(hub, run, is_tail=True) as following:
        await in_thread(end)(run, rings=False)
        numbers = await in_thread(stored)(run)
        await following.until_seq(numbers[-1])
        await in_thread(emit)(run, Fact("operation.settled", {}), rings=False)
        await following.until_seq(numbers[-1] + 1)
        last = str(at(run, numbers[-1] + 1))
        stream_id = await in_thread(start_new_attempt)(run)
        gap = await following.until("gap")
        assert (gap["reason"], gap["requested"]) == ("new_attempt", last)
        snapshot = await following.until("snapshot")
        assert snapshot["view"]["stream_id"] == f"st_{stream_id.hex}"
        await in_thread(emit)(run, *deltas(1))
        await following.until("text.delta")
        assert following.events[-1]["seq"] == 2


async def test_a_cursor_of_an_earlier_attempt_is_told_of_the_new_one(run: Run) -> None:
    await in_thread(end)(run, rings=False)
    old = at(run, 4)
    await in_thread(start_new_attempt)(run)
    async with a_hub() as hub, a_follower(hub, run, after=old) as following:
        assert (await following.until("gap"))["reason"] == "new_attempt"
        await following.until("caught_up")


async def test_an_opening_with_an_outdated_stream_reads_the_current_one(run: Run) -> None:
    await in_thread(end)(run, rings=False)
    old = run.stream_id
    await in_thread(start_new_attempt)(run)
    async with a_hub() as hub:
        following = Following(hub, Opening(run.pk, old))
        async with aclosing(following.items):
            await following.until("caught_up")
            assert [event["type"] for event in following.events] == ["attempt.created"]


async def test_lost_doorbells_are_found_by_the_tick(run: Run) -> None:
    async with a_hub() as hub, a_follower(hub, run) as following:
        await following.until("caught_up")
        for _ in range(3):
            await in_thread(emit)(run, *deltas(2), rings=False)
        await following.until_seq(16)
        assert following.seqs == list(range(1, 17))


async def test_a_doorbell_after_a_lost_one_fetches_what_is_missing(run: Run) -> None:
    async with a_hub() as hub, a_follower(hub, run) as following:
        await following.until("caught_up")
        await in_thread(emit)(run, *deltas(2), rings=False)
        await in_thread(emit)(run, *deltas(2))
        await following.until_seq(14)
        assert following.seqs == list(range(1, 15))


async def test_a_doorbell_too_large_for_its_frames_sends_readers_to_the_database(run: Run) -> None:
    async with a_hub() as hub, a_follower(hub, run) as following:
        await following.until("caught_up")
        await in_thread(emit)(run, *deltas(10, pad=20_000))
        await following.until_seq(20)
        assert following.seqs == list(range(1, 21))


async def test_a_doorbell_that_is_not_true_is_found_out(run: Run) -> None:
    async with a_hub() as hub, a_follower(hub, run) as following:
        await following.until("caught_up")
        channel = b"r:" + run.stream_id.hex.encode()
        hub._heard([(channel, b"11 500 "), (channel, b"nonsense"), (b"r:nobody", b"1 1 x")])
        await in_thread(emit)(run, *deltas(1))
        await following.until_seq(11)
        assert following.seqs == list(range(1, 12))
        assert "gap" not in following.kinds


async def test_a_hundred_followers_share_reads_and_all_get_everything(run: Run) -> None:
    async with a_hub() as hub:
        followers = [Following(hub, Opening(run.pk, run.stream_id)) for _ in range(100)]

        async def read(following: Following) -> None:
            async with aclosing(following.items):
                await following.until_seq(60)

        async with asyncio.TaskGroup() as group:
            for following in followers:
                group.create_task(read(following))
            for _ in range(5):
                await in_thread(emit)(run, *deltas(10))
        assert all(following.seqs == list(range(1, 61)) for following in followers)
        assert hub.counts["pages"] < 20


async def test_followers_whose_ring_was_given_up_read_the_database_and_miss_nothing(
    run: Run, owner: Actor, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two runs whose rings do not fit together: each doorbell of one empties the ring of the other."""
    other = await in_thread(builders.a_run)(owner)
    async with a_hub() as hub:
        monkeypatch.setattr(hub.rings, "_max_bytes", 100)
        async with a_follower(hub, run) as first, a_follower(hub, other) as second:
            await first.until("caught_up")
            await second.until("caught_up")
            for _ in range(5):
                await in_thread(emit)(run, *deltas(1))
                last = await in_thread(emit)(other, *deltas(1))
                await second.until_seq(last)
            await first.until_seq(15)
            assert first.seqs == list(range(1, 16))
            assert second.seqs == list(range(1, last + 1))
            one, two = (hub._topics[b"r:" + r.stream_id.hex.encode()] for r in (run, other))
            assert isinstance(one, Stream)
            assert isinstance(two, Stream)
            assert one.ring.after(14) is None or two.ring.after(last - 1) is None
        assert hub.rings.held_bytes == 0


async def test_one_person_has_a_bounded_number_of_streams_and_others_have_theirs(run: Run) -> None:
    async with a_hub() as hub:
        most = limits().streams_per_person

        def reader(user_id: int) -> Reader:
            return Reader(TEXT, who=Who(user_id, run.tenant_id, "", None, None))

        readers = [reader(1) for _ in range(most)]
        streams = [await hub.join_stream(run.pk, run.stream_id, each) for each in readers]
        late = Following(hub, Opening(run.pk, run.stream_id))
        late.reader.who = reader(1).who
        await late.rest()
        assert late.kinds == ["closing"]
        closing = late.controls[0]
        assert (closing["code"], closing["reconnect"], closing["retry_after"]) == (4029, True, 20.0)
        with pytest.raises(TooManyStreams):
            await hub.join_feed(run.tenant_id, reader(1))
        await hub.join_stream(run.pk, run.stream_id, reader(2))
        hub.leave(streams[0], readers[0])
        hub.leave(streams[0], readers[0])  # gone already: frees no second place
        await hub.join_stream(run.pk, run.stream_id, reader(1))
        with pytest.raises(TooManyStreams):
            await hub.join_stream(run.pk, run.stream_id, reader(1))


async def test_who_waits_longest_is_sent_away_when_too_much_waits(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    """None of them has waited for long: the bound of the whole process counts."""
    async with a_hub() as hub, a_follower(hub, run) as first, a_follower(hub, run) as second:
        monkeypatch.setattr(hub.sending, "_max_bytes", TRANSPORT_BYTES + 10_000)
        evicted: list[str] = []
        for name, each in (("first", first), ("second", second)):
            each.reader.evict = lambda name=name: evicted.append(name)
            await each.until("ready")  # and asks for nothing more: its message is on the way
        await until(lambda: bool(evicted))
        assert evicted == ["first"]
        assert first.reader.ending == SLOW
        assert second.reader.ending is None


async def test_every_reader_gets_its_heartbeats_in_turn(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("streaming.hub.HEARTBEAT_SECONDS", 0.3)
    async with a_hub() as hub:
        readers = [Reader(TEXT) for _ in range(2 * BEAT_TURNS)]
        hub.readers.update(readers)
        await until(lambda: all(reader.wants_beat for reader in readers))


async def test_who_loads_a_page_at_the_same_time_is_sent_the_same_snapshot(run: Run) -> None:
    """Read, folded and written once: a large view for a hundred pages would hold up everybody else."""
    async with a_hub() as hub:
        followers = [Following(hub, Opening(run.pk, run.stream_id, wants_snapshot=True)) for _ in range(20)]
        written: list[str] = []

        async def load(following: Following) -> None:
            async with aclosing(following.items):
                async for item in following.items:
                    text = item["text"]
                    if text.startswith('{"type":"snapshot"'):
                        written.append(text)
                    if text.startswith('{"type":"caught_up"'):
                        return

        await asyncio.gather(*(load(following) for following in followers))
        assert len(written) == 20
        assert hub.counts["snapshots"] == len({id(text) for text in written}) < 5


async def test_with_redis_away_the_tick_goes_on_delivering(run: Run) -> None:
    async with a_hub("unix:///nowhere/redis.sock") as hub, a_follower(hub, run) as following:
        await following.until("caught_up")
        await in_thread(emit)(run, *deltas(3))
        await following.until_seq(13)
        assert following.seqs == list(range(1, 14))


async def test_a_cut_of_the_redis_connection_loses_nobody(run: Run) -> None:
    async with a_hub() as hub, a_follower(hub, run) as following:
        await following.until("caught_up")
        link = hub.subscriptions._link
        assert link is not None
        link.close()
        await in_thread(emit)(run, *deltas(3))
        await following.until_seq(13)
        await until(lambda: hub.subscriptions.is_connected)
        pages = hub.counts["pages"]
        await in_thread(emit)(run, *deltas(3))
        await following.until_seq(16)
        assert following.seqs == list(range(1, 17))
        assert hub.counts["pages"] == pages  # subscribed again: live events need no read


async def test_a_client_that_does_not_acknowledge_in_time_is_held_back_and_goes_on_without_a_hole(run: Run) -> None:
    async with a_hub() as hub, a_follower(hub, run) as following:
        await following.until("caught_up")
        following.reader.window.ack(10)
        for _ in range(8):
            await in_thread(emit)(run, *deltas(2, pad=100_000))
        while following.reader.window.is_open:
            assert await following.next() is not None
        waiting = asyncio.ensure_future(following.next())
        await in_thread(emit)(run, *deltas(1))
        assert not waiting.done()
        following.reader.window.ack(following.seqs[-1])
        following.reader.poke()
        await waiting
        while following.seqs[-1] < 27:
            following.reader.window.ack(following.seqs[-1])
            assert await following.next() is not None
        assert following.seqs == list(range(1, 28))


async def test_heartbeats_move_no_cursor(run: Run) -> None:
    async with a_hub() as hub, a_follower(hub, run) as following:
        await following.until("caught_up")
        following.reader.beat()
        assert (await following.until("heartbeat")) == {"type": "heartbeat", "head_seq": 10}


async def test_a_drain_sends_everybody_away_to_come_back(run: Run) -> None:
    async with a_hub() as hub, a_follower(hub, run) as following, a_follower(hub, run) as late:
        await following.until("caught_up")
        hub.drain()
        await following.rest()
        await late.rest()
        for one in (following, late):
            closing = one.controls[-1]
            assert (closing["code"], closing["reconnect"]) == (DRAIN.code, True)
        assert hub.readers == set()


async def test_a_run_that_is_deleted_closes_its_followers(run: Run) -> None:
    async with a_hub() as hub, a_follower(hub, run) as following:
        await following.until("caught_up")
        await in_thread(Run.objects.filter(pk=run.pk).delete)()
        await following.rest()
        assert following.controls[-1]["code"] == Close.UNKNOWN_RUN


async def test_who_leaves_is_forgotten(run: Run) -> None:
    async with a_hub() as hub:
        async with a_follower(hub, run) as following:
            await following.until("caught_up")
            assert len(hub.readers) == 1
        assert hub.readers == set()
        assert hub._topics == {}


def test_judging_cursors() -> None:
    stream = UUID(int=1)
    assert judge(Cursor(stream, 4), stream, floor=5, head=9) is None
    assert judge(Cursor(stream, 9), stream, floor=5, head=9) is None
    assert judge(Cursor(stream, 3), stream, floor=5, head=9) is GapReason.TRIMMED
    assert judge(Cursor(stream, 10), stream, floor=5, head=9) is GapReason.AHEAD
    assert judge(Cursor(UUID(int=2), 9), stream, floor=5, head=9) is GapReason.OTHER_STREAM
