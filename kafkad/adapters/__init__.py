"""One outside thing each, behind a port of `kafkad.core.ports`: files, shared memory, links, stores."""
