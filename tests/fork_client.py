"""Runs a command of a shell in a fork of :mod:`forked_commands`: with the arguments, folder,
variables and standard streams of this process, which waits for its end.

A recipe starts a hundred of them, so this imports nothing that takes longer than the fork does.
"""

import _signal
import _socket
import posix
import sys

# Sockets: of the process that has fairseq alone, and of the one that has the plugin as well.
PROCESSES = ("fairseq", "plugin")


def names_plugin(name, arguments):
    """Whether a command would import the plugin, which must not be there for others."""
    if name == "fairseq-hrt" or arguments[:2] == ["-m", "fairseq_hrt"]:
        return True
    # Most scripts of the examples import it.
    if name == "python" and arguments[0].endswith(".py"):
        return True
    return any(
        option == "--user-dir" and value.rstrip("/").split("/")[-1] == "fairseq_hrt"
        for option, value in zip(arguments, arguments[1:])
    )


def ask(connection, folder, name, arguments, descriptors, cwd, environment):
    """Asks for a command over a new connection, whose answers are two lines: the command's process,
    and at its end its exit status (negative: the signal that has ended it).

    Args:
        connection: a Unix socket.
        folder: of the sockets.
        descriptors: its standard streams.
        environment: empty for that of the process with the imports.
    """
    connection.connect(f"{folder}/{PROCESSES[names_plugin(name, arguments)]}")
    streams = b"".join(number.to_bytes(4, sys.byteorder) for number in descriptors)
    rights = (_socket.SOL_SOCKET, _socket.SCM_RIGHTS, streams)
    connection.sendmsg([b"\n"], [rights])
    variables = (f"{variable}={value}" for variable, value in environment.items())
    words = (cwd, name, str(len(arguments)), *arguments, *variables)
    connection.sendall("".join(f"{word}\0" for word in words).encode(errors="surrogateescape"))
    connection.shutdown(_socket.SHUT_WR)


def line(connection):
    text = b""
    while not text.endswith(b"\n"):
        byte = connection.recv(1)
        if not byte:
            raise OSError("the process that waits for the command is gone")
        text += byte
    return int(text)


def main(folder, name, *arguments):
    connection = _socket.socket(_socket.AF_UNIX)
    environment = {
        variable.decode(errors="surrogateescape"): value.decode(errors="surrogateescape")
        for variable, value in posix.environ.items()
    }
    ask(connection, folder, name, list(arguments), (0, 1, 2), posix.getcwd(), environment)
    process = line(connection)
    for number in (_signal.SIGINT, _signal.SIGTERM):
        _signal.signal(number, lambda number, _: posix.kill(process, number))
    status = line(connection)
    return status if status >= 0 else 128 - status


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
