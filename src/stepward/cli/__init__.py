"""The command line: one module a command group, loaded when its command is called.

It turns what the API, the spool and the server answer into text for people (``text``, ``table``) and into JSON and CSV
for programs. It holds no logic of its own about runs, and it is the only package that may import the server.
"""
