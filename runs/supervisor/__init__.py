"""The supervisor: acts on overdue rows. Any number may run; none is special, none holds a timer in memory."""
