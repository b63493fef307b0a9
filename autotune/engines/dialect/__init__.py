"""SGLang's dialect: flags and variables by version, endpoints, the stream, server_info, log lines.

Shared by the engine `sglang` and by the engine `simulated`, whose server speaks it.
"""
