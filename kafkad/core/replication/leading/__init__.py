"""The leader of a partition with several replicas: the progress of followers, the ISR, the high watermark."""
