"""Runs trials in worker processes on this or other machines, through Dask.

main process: ledger, engine   ── orders: keys, shares ──►   worker processes: worker_trials
                               ◄── reports: results ─────
"""
