"""Trials in other processes, here or on other machines, through Dask.

    this process: ledger, engine   ── orders: keys, shares ──►   worker process: workshop
                                   ◄── news: results ────────    as many as there are

Only `engine`, `opening` and `parcel` know Dask; what happens at each end does not.
"""
