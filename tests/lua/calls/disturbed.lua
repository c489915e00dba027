-- SPDX-License-Identifier: MIT
-- The calls that fit, on points that were all disturbed: ridge disturbed.lua, in a folder with
-- fit.db (measured.lua). Prints the names of those that did not succeed, and why.

local sqlite = require 'ridge.store.sqlite'
local here = arg[0]:match '^(.*/)'
local fitting = dofile(here .. 'fitting.lua')
local values = dofile(here .. 'values.lua')

local db = sqlite.open('fit.db', 'write')
for _, name in ipairs { 'attempt', 'timing' } do
  db:run(("UPDATE %s SET grade = 'D', flags = 'LOAD' WHERE grade IS NOT NULL"):format(name))
end
db:close()

-- What answers with a list, which must not be empty.
local LIST = { ['sweep:best'] = true, ['sweep:pareto'] = true, ['sweep:exponent'] = true,
  ['sweep:results'] = true }

local n = 0
for k, name in ipairs(fitting.names) do
  local line = fitting.FUNCTIONS[name] or fitting.METHODS[name]
  if line:find('fit.db', 1, true) or line:find 'sweep%(' or line:find 'counted%(' then
    n = n + 1
    for i = 1, 10 do
      local draw = values.new(100 * k + i)
      local f, given, count = fitting.call(draw, name)
      local ok, found = pcall(f, unpack(given, 1, count))
      if not ok or LIST[name] and #found == 0 then
        print(('FAILS %s: %s'):format(name, ok and 'nothing' or tostring(found)))
      end
    end
  end
end
print(('DONE %d'):format(n))
