"""Options of commands, read as getopt does."""

from collections.abc import Collection


def options_of(
    argv: list[str], with_value: str = "", long_names: Collection[str] = ()
) -> tuple[dict[str, str], list[str]]:
    """Returns ({letter or long name: its value}, the other words).

    Letters in `with_value` take the rest of the word or the next word. Long options in `long_names` are
    known; any other stands for its first letter, as `--number=5` does for `-n 5`.
    """
    options: dict[str, str] = {}
    words = [*argv[1:]]
    rest: list[str] = []
    while words:
        word = words.pop(0)
        if word == "--":
            return options, [*rest, *words]
        if not word.startswith("-") or word == "-":
            rest.append(word)
            continue
        if word.startswith("--"):
            name, equals, value = word[2:].partition("=")
            key = name if name in long_names else name[:1]
            if not equals and key in with_value and words:
                value = words.pop(0)
            options[key] = value
            continue
        for number, letter in enumerate(word[1:], 2):
            if letter in with_value:
                options[letter] = word[number:] or (words.pop(0) if words else "")
                break
            options[letter] = ""
    return options, rest
