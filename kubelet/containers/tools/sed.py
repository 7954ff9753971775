"""The command `sed`."""

from kubeskew.kubelet.containers.execution.process import Process
from kubeskew.kubelet.containers.tools.inputs import text_inputs, texts_of
from kubeskew.kubelet.containers.tools.sed_running import SedRun
from kubeskew.kubelet.containers.tools.sed_scripts import Instruction, SedError, SedParser


async def sed(process: Process, argv: list[str]) -> int:
    """`sed [-nErsi] [-e SCRIPT] [-f FILE] [SCRIPT] [FILE …]`."""
    options, scripts, paths = _arguments(process, argv[1:])
    if not scripts:
        if not paths:
            return process.complain("Usage: sed [OPTION]... {script-only-if-no-other-script} [input-file]...")
        scripts = [paths.pop(0)]
    try:
        script = SedParser("\n".join(scripts), extended=bool({"E", "r"} & options)).parse()
    except SedError as error:
        return process.complain(f"sed: -e expression #1, char {len(scripts[0])}: {error}")
    labels = {command.text for command in script if command.name == ":"}
    for command in script:
        if command.name in "btT" and command.text and command.text not in labels:
            return process.complain(f"sed: can't find label for jump to `{command.text}'")
    if "i" in options or "s" in options:
        return await _each_file(process, script, paths, options)
    texts, code = await texts_of(process, "sed", paths)
    run = SedRun(script, [line for text in texts for line in text_inputs(text)], quiet="n" in options)
    await run.run(process)
    process.out("".join(run.output))
    return run.code or (2 if code else 0)


async def _each_file(process: Process, script: list[Instruction], paths: list[str], options: set[str]) -> int:
    code = 0
    for path in paths:
        texts, failed = await texts_of(process, "sed", [path])
        code = 2 if failed else code
        for text in texts:
            run = SedRun(script, text_inputs(text), quiet="n" in options)
            await run.run(process)
            data = "".join(run.output).encode("utf-8", "surrogateescape")
            if "i" in options:
                process.machine.files.write(process.path(path), data, process.timestamp())
            else:
                process.stdout(data)
    return code


def _arguments(process: Process, words: list[str]) -> tuple[set[str], list[str], list[str]]:
    """(options, scripts, paths)."""
    options: set[str] = set()
    scripts: list[str] = []
    paths: list[str] = []
    while words:
        word = words.pop(0)
        if word in {"-e", "--expression"} or word.startswith("--expression="):
            scripts.append(word.partition("=")[2] if "=" in word else words.pop(0) if words else "")
        elif word in {"-f", "--file"}:
            data = process.machine.files.read(process.path(words.pop(0) if words else ""))
            scripts.append(data.decode("utf-8", "surrogateescape").rstrip("\n"))
        elif word in {"--quiet", "--silent", "--regexp-extended", "--in-place"}:
            options.add({"--quiet": "n", "--silent": "n", "--regexp-extended": "E", "--in-place": "i"}[word])
        elif word.startswith("-i"):
            options.add("i")
        elif word.startswith("-") and word != "-":
            letters = word[1:]
            options |= set(letters.partition("e")[0])
            if "e" in letters:
                rest = letters.partition("e")[2]
                scripts.append(rest or (words.pop(0) if words else ""))
        else:
            paths.append(word)
    return options, scripts, paths
