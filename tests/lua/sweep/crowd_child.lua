-- SPDX-License-Identifier: MIT
-- One of the two readers of a crowd: luajit crowd_child.lua DB FILE; reads until FILE is there.
-- Prints how often it read, and the most rows it saw; what it sees may only grow.

local results = require 'ridge.store.results'
local store = require 'ridge.store'

local function exists(path)
  local file = io.open(path)
  if file then file:close() end
  return file ~= nil
end

local reads, most = 0, 0
while not exists(arg[2]) do
  if exists(arg[1]) then
    local ok, st = pcall(store.open, arg[1], 'read')
    if ok then
      local sweep = st.db:row 'SELECT id FROM sweep'
      local n = 0
      for _, row in ipairs(sweep and results.rows(st, sweep.id) or {}) do
        n = n + (row.fwd and 1 or 0)
      end
      if sweep then st.db:query 'SELECT params, t_ns FROM result WHERE t_ns > 0' end
      st:close()
      assert(n >= most, 'rows are gone')
      reads, most = reads + 1, n
    elseif not tostring(st):find 'empty' then
      error(st, 0) -- only the very first moment of a file is excused
    end
  end
end
print(('read %d times, %d rows'):format(reads, most))
