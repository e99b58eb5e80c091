"""Everything that performs I/O: requests, tools, stores, traces, and the loop's drivers."""
