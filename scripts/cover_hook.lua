-- SPDX-License-Identifier: MIT
-- Notes each line of ridge's Lua the first time it runs, as `path:line` in the file $RIDGE_COVER.
-- scripts/cover.sh puts it on the first line of every source it measures; without the variable it
-- does nothing.

local path = os.getenv("RIDGE_COVER")
if path and not package.loaded["ridge.cover"] then
  package.loaded["ridge.cover"] = true
  jit.off()

  -- Appended line by line, so that processes do not mix and a killed one loses nothing.
  local file = io.open(path, "a")
  if not file then return end -- a test that runs as another user
  file:setvbuf("line")

  local getinfo = debug.getinfo
  local seen = {} -- by source, by line; false for a source that is not ridge's
  local names = {}

  debug.sethook(function(_, line)
    local source = getinfo(2, "S").source
    local lines = seen[source]
    if lines == nil then
      names[source] = source:match("^@.-(ridge/[^:]*%.lua)$")
      lines = names[source] and {} or false
      seen[source] = lines
    end
    if lines and not lines[line] then
      lines[line] = true
      file:write(names[source], ":", line, "\n")
    end
  end, "l")
end
