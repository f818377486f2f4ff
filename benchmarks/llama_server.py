"""llama.cpp's own server out of its Python wheel, in an environment that has that and nothing of ours.

`python llama_server.py --model FILE --port N --slots N --context-tokens N --cache-mib N --threads N`
"""

import argparse
import signal

import xllamacpp


def main() -> None:
    """Serve until told to stop."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--model", required=True, help="a GGUF file")
    for flag in ("port", "slots", "context-tokens", "cache-mib", "threads"):
        parser.add_argument(f"--{flag}", type=int, required=True)
    options = parser.parse_args()
    params = xllamacpp.CommonParams()
    params.model.path = options.model
    params.port = options.port
    params.n_parallel = options.slots
    params.n_ctx = options.slots * options.context_tokens
    params.cache_ram_mib = options.cache_mib
    params.cpuparams.n_threads = options.threads
    params.cpuparams_batch.n_threads = options.threads
    server = xllamacpp.Server(params)
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        signal.pause()
    except KeyboardInterrupt:
        del server


if __name__ == "__main__":
    main()
