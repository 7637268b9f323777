"""The APIs that the controller process answers: request body in, response body or something that waits out.

Each module is one API; `dispatch.DISPATCH` finds it by key. Nothing here knows who asks or how the answer travels.
"""
