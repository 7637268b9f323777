"""The APIs of the controller process, by what they change: request body in, response body or pending response out.

`requests.apis_of_controller` maps API keys to functions. They do not depend on the transport.
"""
