"""The controller process of a broker in a cluster on ZooKeeper: the only process with a session.

It applies the elected controller's requests to this broker, and runs the controller while this broker is elected.
"""
