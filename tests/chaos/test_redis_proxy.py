"""The proxy does what it is there for, and only to doorbells."""

import itertools
import random
from collections import Counter

import pytest
import redis
from django.conf import settings

from tests.chaos.redis_proxy import Doorbells, Mischief, redis_proxy, reply_end

BELLS = [b"*3\r\n$7\r\nmessage\r\n$1\r\nr\r\n$%d\r\n%d\r\n" % (len(b"%d" % n), n) for n in range(200)]


@pytest.mark.parametrize(
    "reply",
    [
        b"+OK\r\n", b":12\r\n", b"$-1\r\n", b"$0\r\n\r\n", b"$4\r\na\r\nb\r\n", b"*-1\r\n", b"*0\r\n",
        b"*2\r\n*1\r\n:1\r\n$1\r\nx\r\n", b"%1\r\n+a\r\n*1\r\n#t\r\n", BELLS[0],
    ],
)  # fmt: skip
def test_a_reply_ends_where_it_ends_wherever_the_network_cuts_it(reply: bytes) -> None:
    for cut in range(len(reply)):
        assert reply_end(reply[:cut]) == -1
    assert reply_end(b":7\r\n" + reply + b"+next", 4) == 4 + len(reply)


def test_doorbells_are_lost_doubled_and_swapped_and_nothing_is_invented() -> None:
    done: Counter[str] = Counter()
    bells = Doorbells(Mischief(20, 15, 15), random.Random(3), done)
    came = [bell for bell in BELLS for bell in bells.take(bell)] + bells.release()
    assert set(came) <= set(BELLS)
    assert len(BELLS) - len(set(came)) == done["lost"] > 20
    assert len(came) - len(set(came)) == done["doubled"] > 10
    assert any(BELLS.index(a) > BELLS.index(b) for a, b in itertools.pairwise(came))
    assert sum(done.values()) == len(BELLS)


def test_commands_go_through_as_they_are_and_their_database_is_the_same(transactional_db: None) -> None:
    with redis_proxy(settings.REDIS_URL, mischief=Mischief(lost=100)) as proxy:
        with redis.Redis.from_url(settings.REDIS_URL) as direct, redis.Redis.from_url(proxy.url) as client:
            value = bytes(range(256)) * 1000
            client.set("outlive:proxy", value)
            assert direct.getdel("outlive:proxy") == value
            with client.pubsub() as listening:
                listening.subscribe("outlive:proxy")
                assert listening.get_message(timeout=10)["type"] == "subscribe"
                direct.publish("outlive:proxy", "x")
                while not proxy.done:
                    client.ping()
                assert listening.get_message(timeout=0.1) is None
        assert proxy.done == {"lost": 1}
