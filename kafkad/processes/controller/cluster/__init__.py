"""The controller process of a broker in a cluster on ZooKeeper: the only one with a session.

What this broker hosts is followed here for the elected controller, whichever broker that is.
"""
