"""Items give the parts of their frames, whatever is in them."""

from runs.reading.items import Event, Gap, Snapshot


def test_an_event_names_its_place_and_forgives_missing_data() -> None:
    event = Event({"seq": 3, "type": "text.delta", "stream_id": "st_1", "data": {"delta": "x"}})
    assert (event.type, event.seq, event.cursor, event.data) == ("text.delta", 3, "st_1:3", {"delta": "x"})
    assert Event({"seq": 3, "type": "x", "stream_id": "st_1", "data": []}).data == {}


def test_a_gap_has_its_reason_and_a_snapshot_its_view() -> None:
    assert Gap({"type": "gap", "reason": "slow"}).reason == "slow"
    snapshot = Snapshot({"cursor": "st_1:9", "view": {"seq": 9}})
    assert (snapshot.cursor, snapshot.view) == ("st_1:9", {"seq": 9})
