"""What the search knows of the node, as models: throughput, node time, what starts at all; and what they propose."""
