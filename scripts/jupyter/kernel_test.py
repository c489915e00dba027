# SPDX-License-Identifier: MIT
"""The kernel, asked by jupyter_kernel_test."""
import unittest

import jupyter_kernel_test

FIGURE = "ridge.memory.timeline(function() return ridge.ones(9):sum() end):plot():show();"


class Kernel(jupyter_kernel_test.KernelTests):
    kernel_name = "ridge"
    language_name = "lua"
    file_extension = ".lua"
    code_hello_world = "print 'hello, world'"
    code_stderr = "io.stderr:write 'oh\\n'"
    completion_samples = [
        {"text": "ridge.randi", "matches": {"randint"}},
        {"text": "é = 1 x = strin", "matches": {"string"}},
    ]
    complete_code_samples = ["1", "print 'x'", "for i = 1, 3 do print(i) end", "%who", "?ridge"]
    incomplete_code_samples = ["for i = 1, 3 do", "f(", "x = {1,"]
    invalid_code_samples = ["x = = 1", "end"]
    code_page_something = "?ridge.randn"
    code_generate_error = "error 'no'"
    code_execute_result = [
        {"code": "6 * 7", "result": "42"},
        {"code": "'a' .. 'b'", "result": "'ab'"},
    ]
    code_display_data = [{"code": FIGURE, "mime": "image/png"}]
    code_history_pattern = "6*7"
    supported_history_operations = ("tail", "range", "search")
    code_inspect_sample = "ridge.randn"


if __name__ == "__main__":
    unittest.main()
