"""The Debian package in its real surroundings: built, installed and used on a booted Debian 12 with systemd.

Needs root, systemd-nspawn, mmdebstrap and the way to a Debian mirror that this machine's apt has. Machines are
overlays on one tree, which lives as long as the test run; their network is their own.
"""
