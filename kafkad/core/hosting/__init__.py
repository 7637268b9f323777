"""This broker's replicas in a cluster: their places, and the state that the controller has sent.

The elected controller decides; its requests become responses, and changes of the image for all processes.
"""
