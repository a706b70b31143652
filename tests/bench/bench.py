"""What every row is given: the site, a client of it, the reference server, and how much is to be measured."""

from dataclasses import dataclass

from tests.bench.client import Address
from tests.bench.runs import Client
from tests.bench.site import Site


@dataclass(frozen=True)
class Scale:
    """How much is measured. Counts are per repetition."""

    repetitions: int
    warm_up: int
    starts: int  # a: runs created one after another
    delay_seconds: float  # b: at 100 events a second
    rate_events: int  # b: at full speed, to one follower; to many a tenth of it
    followers: tuple[int, int, int]  # b: few, some, many
    cut_followers: int  # b: half of them come and go
    stuck_readers: int
    stuck_seconds: float
    stops: int  # c: one after another
    trees: int  # c: at the same time
    behind: int  # d: events
    kills: int  # e: one after another
    lost_hosts: int  # e
    runs: int  # f: one-token runs, 16 in flight
    steps: int  # f: durable steps of one run; of many, a tenth of it each
    idle: int  # g: followers that wait
    crowd: int  # g: sockets, of which b's many are told something
    crowd_runs: int  # g: what the others follow
    keys: int  # h: typed one after another
    lines: int
    reattaches: int
    idle_shells: int


FULL = Scale(
    repetitions=5,
    warm_up=30,
    starts=100,
    delay_seconds=5.0,
    rate_events=20_000,
    followers=(1, 10, 100),
    cut_followers=40,
    stuck_readers=40,
    stuck_seconds=13.0,
    stops=40,
    trees=40,
    behind=10_000,
    kills=6,
    lost_hosts=5,
    runs=600,
    steps=500,
    idle=1000,
    crowd=5000,
    crowd_runs=50,
    keys=300,
    lines=2_000_000,
    reattaches=40,
    idle_shells=50,
)
QUICK = Scale(
    repetitions=1,
    warm_up=1,
    starts=3,
    delay_seconds=0.3,
    rate_events=600,
    followers=(1, 2, 3),
    cut_followers=4,
    stuck_readers=1,
    stuck_seconds=0.3,
    stops=2,
    trees=2,
    behind=700,
    kills=1,
    lost_hosts=1,
    runs=16,
    steps=10,
    idle=20,
    crowd=40,
    crowd_runs=3,
    keys=10,
    lines=50_000,
    reattaches=3,
    idle_shells=3,
)


@dataclass(frozen=True)
class Bench:
    """One run of the benchmark."""

    site: Site
    client: Client
    reference: Address
    reference_pid: int
    scale: Scale
    database_url: str
    redis_url: str
