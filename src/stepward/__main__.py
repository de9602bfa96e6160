"""``python -m stepward``: the command line where no ``stepward`` script is on the path."""

from stepward.cli.app import main

if __name__ == "__main__":
    main()
