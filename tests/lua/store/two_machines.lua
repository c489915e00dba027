-- SPDX-License-Identifier: MIT
-- Two results databases with the same sweeps: tests/lua/cli/fixed_rows.lua, and that as another
-- machine would have measured it, twice as fast.

local sqlite = require 'ridge.store.sqlite'

local M = {}

--- Make both.
---@param a string path
---@param b string path
function M.make(a, b)
  dofile('tests/lua/cli/fixed_rows.lua').make(a)
  dofile('tests/lua/cli/fixed_rows.lua').make(b)
  local db = sqlite.open(b, 'write')
  db:exec([[
    UPDATE machine SET fp = x'b0b1b2b3b4b5b6b7', hostname = 'other<host>', cpu = 'Other CPU 7';
    UPDATE device SET name = 'Other CPU 7';
    UPDATE env SET fp = x'e0';
    UPDATE sweep SET uuid = randomblob(16);
    UPDATE trial SET uuid = randomblob(16);
    UPDATE worker SET uuid = randomblob(16);
    UPDATE attempt SET uuid = randomblob(16), series = CASE WHEN series IS NULL THEN NULL
      ELSE CAST(series || x'00' AS BLOB) END;
    UPDATE timing SET med = med / 2, ci_lo = ci_lo / 2, ci_hi = ci_hi / 2,
      pass_med = pass_med / 2]], 'another machine')
  db:close()
end

return M
