"""The guarded updates: every decision about a run, and the only code that writes its status.

docs/LIFECYCLE.md has the table of guards; each module here holds one kind of decision.
"""
