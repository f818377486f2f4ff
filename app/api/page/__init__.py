"""The server's own web page: what a person sees who opens its address in a browser."""
