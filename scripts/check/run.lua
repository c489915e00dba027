-- SPDX-License-Identifier: MIT
-- Runs the checks, all of them or those named: luajit scripts/check/run.lua [name ...]
-- Its last line is `N passed, N failed`.

package.path = "scripts/check/?.lua;" .. package.path
local Tree = require "tree"

local CHECKS = { "layers", "docs", "map", "size", "text", "words", "refs", "exports", "format",
  "lint" }

local function seconds()
  local file = assert(io.open("/proc/uptime"))
  local uptime = file:read("*n")
  file:close()
  return uptime
end

local names = #arg > 0 and arg or CHECKS
local passed, failed = 0, 0
for _, name in ipairs(names) do
  local start = seconds()
  local lines, ok = Tree.run("luajit scripts/check/" .. name .. ".lua 2>&1")
  print(("%-4s %-8s %5.1f s"):format(ok and "ok" or "FAIL", name, seconds() - start))
  for _, line in ipairs(lines) do print("  " .. line) end
  if ok then passed = passed + 1 else failed = failed + 1 end
  io.flush()
end
print(("%d passed, %d failed"):format(passed, failed))
os.exit(failed == 0 and 0 or 1)
