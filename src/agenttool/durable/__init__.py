"""Calls that outlive a process: leases, recovery, resumed calls, answers and results that arrive later."""
