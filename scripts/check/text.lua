-- SPDX-License-Identifier: MIT
-- text: licence line first, no tabs, no notes to self, no calls that overrun or end the process.

package.path = "scripts/check/?.lua;" .. package.path
local tree = require "tree".open(arg[1])

-- In C outside tests/: unbounded writes, and whatever takes the user's session down with it.
local BANNED = {
  strcpy = "snprintf", strcat = "snprintf", sprintf = "snprintf", vsprintf = "vsnprintf",
  gets = "fgets", strtok = "strtok_r", atoi = "strtol", atof = "strtod",
  abort = "rg_fail(RG_EBUG, ...)", exit = "a status", assert = "rg_fail(RG_EBUG, ...)",
}
local NOTES = { "TO" .. "DO", "FIX" .. "ME", "X" .. "XX" }

-- The code of one line of C: without strings and comments; inside says whether a comment is open.
local function code_of(line, inside)
  local code = line:gsub('\\.', ""):gsub('"[^"]*"', '""'):gsub("'[^']*'", "''")
  if inside then
    local close = code:find("*/", 1, true)
    if not close then return "", true end
    code = code:sub(close + 2)
  end
  code = code:gsub("/%*.-%*/", ""):gsub("//.*", "")
  local open = code:find("/*", 1, true)
  if open then return code:sub(1, open - 1), true end
  return code, false
end

for _, path in ipairs(tree:matching("%.[ch]$", "%.cuh?$", "%.lua$", "%.sh$", "^scripts/[^/.]+$",
  "^%.ci/", "^Makefile$")) do
  local is_c = path:find("%.[chu]+$")
  local licensed, inside = false, false
  for number, line in tree:lines(path) do
    if number <= 2 and line:find("SPDX-License-Identifier: MIT", 1, true) then licensed = true end
    if path ~= "Makefile" and line:find("\t", 1, true) then tree:fail(path, number, "a tab") end
    if line:find("%s$") then tree:fail(path, number, "a space at the end of the line") end
    for _, note in ipairs(NOTES) do
      if line:find("%f[%w_]" .. note .. "%f[^%w_]") then
        tree:fail(path, number, "%s: do it, or write an issue", note)
      end
    end
    if is_c and not path:find("^tests/") then
      local code
      code, inside = code_of(line, inside)
      for name in code:gmatch("%f[%w_]([%l_]+)%s*%(") do
        if BANNED[name] then tree:fail(path, number, "%s(): use %s", name, BANNED[name]) end
      end
    end
  end
  if not licensed then tree:fail(path, 1, "no SPDX-License-Identifier: MIT in the first lines") end
end

tree:finish()
