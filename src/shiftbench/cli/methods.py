"""shiftbench methods"""

from shiftbench.cli.output import Json, print_json, print_table


def methods(json: Json = False) -> None:
    """List every method: its family, what it needs, its parameters with defaults; with --json also search spaces.

    shiftbench methods
    """
    from shiftbench.methods import METHODS, facts

    listed = [facts(name) for name in METHODS]
    if json:
        print_json(listed)
        return
    print_table("", ["method", "family", "needs", "parameters", "what it does"], [
        [one["name"], one["family"], one["needs"],
         ", ".join(f"{key} = {value}" for key, value in one["parameters"].items()), one["summary"]] for one in listed])
