-- SPDX-License-Identifier: MIT
-- size: no source file above 600 lines (it would hold two concepts), no line above 100 columns.

package.path = "scripts/check/?.lua;" .. package.path
local tree = require "tree".open(arg[1])

local MAX_LINES, MAX_COLUMNS, MAX_CHECK_LINES = 600, 100, 100

-- Characters, not bytes: UTF-8 continuation bytes take no column.
local function columns(line) return #line:gsub("[\128-\191]", "") end

local sources = tree:matching("%.[ch]$", "%.cuh?$", "%.lua$", "%.sh$", "^Makefile$", "^%.ci/",
  "^scripts/[^/.]+$")
for _, path in ipairs(sources) do
  local n = 0
  for number, line in tree:lines(path) do
    n = number
    if columns(line) > MAX_COLUMNS then
      tree:fail(path, number, "%d columns; at most %d", columns(line), MAX_COLUMNS)
    end
  end
  local limit = path:find("^scripts/check/") and MAX_CHECK_LINES or MAX_LINES
  if n > limit then tree:fail(path, n, "%d lines; at most %d", n, limit) end
end

tree:finish()
