"""The APIs that the controller process answers: request body in, response body or a waiting reply out.

Each module is one API; `requests.dispatch` finds it by key. Nothing here knows how the answer travels.
"""
