"""The APIs that the controller process answers: request body in, response body or a waiting reply out.

Each module is one API; `requests.apis_of_controller` finds it by key. Nothing here knows how the answer travels.
"""
