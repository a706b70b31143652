"""For people who write agents and want to test them: the pytest fixture `outlive` (see README, "Test your agent").

Nothing of ours is imitated: the run lives in the real database, real decisions are taken, the worker is the real one in
a thread. Only what is outside is made for the test: the model says what it is told to, and the target of effects
misbehaves on demand.
"""
