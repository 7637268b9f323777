"""What this broker hosts in a cluster: which replicas it has, where, and what the controller has told it.

The elected controller decides; here its requests become answers and changes of the image that all processes follow.
"""
