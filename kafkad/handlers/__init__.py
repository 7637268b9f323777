"""The APIs: their versions, and how a request becomes a response or a pending operation.

APIs that are used together are in one module, others have a module each.
"""
