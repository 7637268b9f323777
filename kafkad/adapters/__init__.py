"""Access to external resources, one per module, behind the ports of `kafkad.core.ports`: files, shared memory, links,
stores."""
