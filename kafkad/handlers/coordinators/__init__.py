"""The APIs of group and transaction coordinators, each with `handle`, `pack` and `reject`, called by the worker.

`requests.apis_of_coordinators` maps API keys to them. `requests.routing` is for network processes: it finds the
internal partition of a request, splits a request about several internal partitions, and joins the responses.
"""
