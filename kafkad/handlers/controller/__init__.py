"""The APIs of the controller process, one module each: request body in, response body or pending response out.

`requests.apis_of_controller` maps API keys to modules. The modules do not depend on the transport.
"""
