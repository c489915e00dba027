-- SPDX-License-Identifier: MIT
--- ONNX's operators that write elements to places, and sort.

local M = {}

return M
