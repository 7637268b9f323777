"""The APIs of group and transaction coordinators, one module each: `handle`, `pack`, `reject`, called by the worker.

`requests.apis_of_coordinators` maps API keys to modules. `requests.routing` is for network processes: it finds the
internal partition of a request, splits a request about several internal partitions, and joins the responses.
"""
