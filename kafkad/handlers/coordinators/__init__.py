"""The APIs of group and transaction coordinators, one module each: `handle`, `pack`, `refuse`, run by the worker.

`requests.apis_of_coordinators` says which module answers which key; `requests.routing` is the part of the network
process: it finds the internal partition of a request, splits a request about several and joins the answers.
"""
