"""Code that the APIs of coordinators share: functions by API, routing by internal partition, joined responses."""
