-- SPDX-License-Identifier: MIT
-- mutate_hook: where a source that counts (mutate_plant) notes the blocks it entered: each once, as
-- `path:number` in the file $RIDGE_COVER.  Without the variable nothing is noted.

local path = os.getenv "RIDGE_COVER"

return function(name)
  if not path then return {} end
  local notes = setmetatable({}, { __newindex = function(blocks, number, value)
    rawset(blocks, number, value)
    -- appended each time, so that processes do not mix and a killed one loses nothing
    local file = io.open(path, "a")
    if not file then return end -- a test that runs as another user
    file:write(name, ":", number, "\n")
    file:close()
  end })
  local all = package.loaded["mutate.blocks"] or {}
  package.loaded["mutate.blocks"] = all
  all[#all + 1] = notes -- for mutate_parts, which empties them
  return notes
end
