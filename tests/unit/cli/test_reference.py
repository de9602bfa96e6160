import os

from stepward.cli.app import COMMANDS
from stepward.cli.reference import commands, put_into

PAGE = os.path.join(os.path.dirname(__file__), "../../../docs/cli.md")


def test_the_reference_of_the_docs_is_that_of_the_commands():
    with open(PAGE, encoding="utf-8") as file:
        page = file.read()
    assert page == put_into(page), "renew it: python -m stepward.cli.reference docs/cli.md"


def test_every_command_and_option_says_what_it_is():
    found = commands()
    assert {command.path.split()[1] for command in found} == COMMANDS.keys()
    for command in found:
        assert command.help.endswith(".")
        assert all(parameter.help for parameter in command.parameters)


def test_every_reading_command_has_the_three_formats():
    reading = {"ls", "show", "watch", "logs", "diff", "sync", "doctor", "token ls"}
    with_formats = {
        command.path.removeprefix("stepward ")
        for command in commands()
        if any("--format <table" in parameter.written for parameter in command.parameters)
    }
    assert reading <= with_formats
