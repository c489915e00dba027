-- SPDX-License-Identifier: MIT
--- Random functions behind each pass, each level, and as they are: how many have the bits of the
--- eager run, how many are near, how far off the furthest is. Prints a table for results/kept.
--
--     ./ridge scripts/graph_random.lua [--first 1] [--many 2000] [--minutes 5]

local ridge = require 'ridge'
local near = require 'tests.lua.graph_near'

local opt = ridge.args {
  { 'first', 1, 'number of the first function', integer = true, min = 1, max = 1e6 },
  { 'many', 2000, 'functions', integer = true, min = 1, max = 1e6 },
  { 'minutes', 1e6, 'after which no other function is begun', min = 0, max = 1e6 },
}
ridge.graph.lines(false)

local COLUMNS = { 'idle', 'same', 'near', 'claimed', 'halves', 'moved', 'gains', 'open', 'off' }
local ways = { { 'none', {} } }
for _, pass in ipairs(ridge.graph.passes()) do
  ways[#ways + 1] = { pass.name, { pass.name }, pass.exactness }
end
for _, level in ipairs { 'standard', 'aggressive' } do ways[#ways + 1] = { level, level } end
for _, way in ipairs(ways) do way.counts, way.most = {}, 0 end

local records, failed, last, start = {}, 0, opt.first - 1, os.time()
for seed = opt.first, opt.first + opt.many - 1 do
  if os.time() - start > 60 * opt.minutes then break end
  last = seed
  local subject = near.subject(seed)
  for _, node in ipairs(subject.graph:nodes()) do records[node.op] = (records[node.op] or 0) + 1 end
  for _, way in ipairs(ways) do
    local verdict, most, where = subject:behind(way[2])
    way.counts[verdict] = (way.counts[verdict] or 0) + 1
    way.most = math.max(way.most, most)
    local exact = way[3] == 'exact' or way[1] == 'none' or way[1] == 'standard'
    if verdict == 'off' or exact and verdict ~= 'idle' and verdict ~= 'same' then
      failed = failed + 1
      io.stderr:write(('function %d behind %s: %s, %s\n'):format(seed, way[1], verdict, where))
    end
  end
end

print(('%-34s'):format 'behind' .. ('%8s'):rep(#COLUMNS):format(unpack(COLUMNS)) .. '  furthest')
for _, way in ipairs(ways) do
  local cells = {}
  for i, name in ipairs(COLUMNS) do cells[i] = ('%8d'):format(way.counts[name] or 0) end
  print(('%-34s%s  %.1e'):format(way[1], table.concat(cells), way.most))
end
local names = {}
for name, n in pairs(records) do names[#names + 1] = ('%s %d'):format(name, n) end
table.sort(names)
print(('%d records: %s'):format(#names, table.concat(names, ', ')))
print(('functions %d to %d, %d failed'):format(opt.first, last, failed))
os.exit(failed > 0 and 1 or 0)
