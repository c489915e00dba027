# SPDX-License-Identifier: MIT
"""A notebook, run by nbclient: what its cells leave behind, an error, one that takes too long."""
import base64

import nbformat
from nbclient import NotebookClient
from nbclient.exceptions import CellExecutionError, CellTimeoutError

FIGURE = "ridge.memory.timeline(function() return ridge.ones(9):sum() end):plot()"


def run(*cells, **options):
    book = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(c) for c in cells])
    book.metadata.kernelspec = {"name": "ridge", "display_name": "ridge", "language": "lua"}
    client = NotebookClient(book, kernel_name="ridge", **{"timeout": 300, **options})
    try:
        client.execute()
    finally:
        nbformat.validate(book)
    return [cell.outputs for cell in book.cells]


def main():
    value, printed, figure, shown, other = run(
        "local x = ridge.arange(1, 3)\nx",
        "print 'a' io.stderr:write 'b\\n' io.write(('é'):rep(2^20))",
        FIGURE, f"fig = {FIGURE}\nfig:show()\nprint 'behind'", "x:sum():item()")
    assert "tensor" in value[0].data["text/plain"], value
    streams = {}
    for out in printed:
        streams[out.name] = streams.get(out.name, "") + out.text
    assert streams == {"stdout": "a\n" + "é" * 2**20, "stderr": "b\n"}, streams.keys()
    assert base64.b64decode(figure[0].data["image/png"])[:4] == b"\x89PNG", figure
    assert [out.output_type for out in shown] == ["display_data", "stream"], shown
    assert other[0].data["text/plain"] == "6", other

    try:
        run("function f() error 'deep' end", "f()", "1")
        raise AssertionError("an error is none")
    except CellExecutionError as error:
        assert "[1]:1" in str(error) and "[2]:1" in str(error) and "deep" in str(error), error
    caught = run("error 'no'", "1 + 1", allow_errors=True)
    assert caught[0][0].output_type == "error" and caught[1][0].data["text/plain"] == "2", caught

    slow = run("while true do end", "1 + 1", interrupt_on_timeout=True, allow_errors=True, timeout=3)
    assert slow[0][0].ename == "interrupted" and slow[1][0].data["text/plain"] == "2", slow
    try:
        run("while true do end", timeout=3)
        raise AssertionError("a cell that takes too long is none")
    except CellTimeoutError:
        pass
    print("notebooks: 5 ran as they should")


main()
