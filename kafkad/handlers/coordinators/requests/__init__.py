"""Code that the APIs of coordinators share: modules by API, routing by internal partition, joined responses."""
