-- SPDX-License-Identifier: MIT
-- Runs the checks, all of them or those named: luajit scripts/check/run.lua [name ...]
-- Its last line is `N passed, N failed`.

local CHECKS = { "layers", "docs", "map", "size", "text", "words", "refs", "exports", "format",
  "lint" }

local function seconds()
  local file = assert(io.open("/proc/uptime"))
  local uptime = file:read("*n")
  file:close()
  return uptime
end

-- Two at a time: most are one process each.
local function start(name)
  return name and { name = name, began = seconds(),
    pipe = assert(io.popen("luajit scripts/check/" .. name .. ".lua 2>&1; echo $?")) }
end

local names = #arg > 0 and arg or CHECKS
local passed, failed = 0, 0
local ahead = start(names[1])
for i = 1, #names do
  local check, lines = ahead, {}
  ahead = start(names[i + 1])
  for line in check.pipe:lines() do lines[#lines + 1] = line end
  check.pipe:close()
  local ok = table.remove(lines) == "0"
  print(("%-4s %-8s %5.1f s"):format(ok and "ok" or "FAIL", check.name, seconds() - check.began))
  for _, line in ipairs(lines) do print("  " .. line) end
  if ok then passed = passed + 1 else failed = failed + 1 end
  io.flush()
end
print(("%d passed, %d failed"):format(passed, failed))
os.exit(failed == 0 and 0 or 1)
