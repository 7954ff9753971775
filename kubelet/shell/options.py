"""Options of commands, read as getopt does."""


def options_of(argv: list[str], with_value: str = "") -> tuple[dict[str, str], list[str]]:
    """({letter: its value}, the other words); letters in `with_value` take the rest or the next word."""
    options: dict[str, str] = {}
    words = [*argv[1:]]
    rest: list[str] = []
    while words:
        word = words.pop(0)
        if word == "--":
            return options, [*rest, *words]
        if not word.startswith("-") or word == "-" or word.startswith("--"):
            rest.append(word)
            continue
        for number, letter in enumerate(word[1:], 2):
            if letter in with_value:
                options[letter] = word[number:] or (words.pop(0) if words else "")
                break
            options[letter] = ""
    return options, rest
