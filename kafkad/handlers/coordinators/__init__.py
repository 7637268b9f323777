"""The APIs of group and transaction coordinators, one module each: `handle`, `pack`, `refuse`, run by the worker.

`requests.dispatch` says which module answers which key; `requests.routing` is the network process's part: which
internal partition a request is about, how one that is about several is cut, and how the answers become one.
"""
