"""The APIs of group and transaction coordinators, one module each: `handle`, `pack`, `refuse`, run by the worker.

`requests.dispatch` says which module answers which key; `requests.routing` is the network process's part: it finds the
internal partition of a request, splits a request about several and joins the answers.
"""
