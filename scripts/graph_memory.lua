-- SPDX-License-Identifier: MIT
--- What plans of random graphs take beside what lives at one time: the distribution of their
--- quotient, for the functions of the tests (small tensors of all types, views, writes, records of
--- all kinds) and for nets of elementwise functions, sums and products of larger ones. Prints a
--- table for results/kept.
--
--     ./ridge scripts/graph_memory.lua [--first 1] [--many 300]

local ridge = require 'ridge'
local functions = require 'tests.lua.graph_functions'
local seeded = require 'tests.lua.seeded'

local opt = ridge.args {
  { 'first', 1, 'number of the first graph', integer = true, min = 1, max = 1e6 },
  { 'many', 300, 'graphs of each kind', integer = true, min = 1, max = 1e6 },
}
ridge.graph.lines(false)

-- A function of the tests.
local function of_tests(seed)
  ridge.seed(seed)
  local world = functions.world(seed, { sites = true })
  functions.refill(world, 0)
  return ridge.graph(functions.of(world))
end

-- A net of 10 to 60 calls over rows of 64 to 2,048 numbers (up to 256 KB a tensor), each reading
-- what was made before, mostly shortly before.
local function of_rows(seed)
  local below = seeded(seed)
  local x = ridge.ones(32, 64 * below(16))
  return ridge.inference(ridge.graph, function(a)
    local made = { a }
    local function pick() return made[math.max(1, #made + 1 - below(below(8)))] end
    for _ = 1, 9 + below(51) do
      local y = pick()
      local kind = below(6)
      if kind == 6 then
        y = y:matmul(ridge.ones(y.shape[2], 64 * below(16)))
      elseif kind == 1 and y.shape[2] <= 1024 then
        y = ridge.concat({ y, y:exp() }, 2)
      elseif kind == 2 then
        y = y:narrow(2, 1, math.max(64, y.shape[2] / 2)):contiguous():sin()
      elseif kind == 3 then
        local z = pick()
        if z.shape[2] == y.shape[2] then y = y * z else y = y:softmax(-1) end
      else
        y = y:tanh()
      end
      made[#made + 1] = y
    end
    return made[#made], pick():sum()
  end, x)
end

local BINS = { 1.0, 1.01, 1.05, 1.1, 1.25, 1.5, 2, math.huge }

local function measure(name, make)
  local ratios, counts, worst, over, scratch = {}, {}, 0, 0, 0
  for seed = opt.first, opt.first + opt.many - 1 do
    local m = make(seed):memory()
    if m.plan and m.live > 0 then
      local ratio = (m.plan - m.derived) / m.live
      ratios[#ratios + 1] = ratio
      if m.live > 1.1 * m.peak then scratch = scratch + 1 end
      if ratio > 1.1 then
        over = over + 1
        io.stderr:write(('%s %d: %d bytes, %d live, ratio %.3f\n'):format(name, seed,
          m.plan - m.derived, m.live, ratio))
      end
      worst = math.max(worst, ratio)
      for i, bin in ipairs(BINS) do
        if ratio <= bin then
          counts[i] = (counts[i] or 0) + 1
          break
        end
      end
    end
  end
  table.sort(ratios)
  local cells = {}
  for i = 1, #BINS do cells[i] = ('%7d'):format(counts[i] or 0) end
  print(('%-10s%7d%s  %6.3f  %6.3f'):format(name, #ratios, table.concat(cells),
    ratios[math.ceil(#ratios / 2)] or 0, worst))
  print(('  %d above 1.1; in %d kernels need over 1.1 of what values take'):format(over, scratch))
  io.stdout:flush()
end

print(('graphs %d to %d of each kind: plans by how much of what lives at one time they take')
  :format(opt.first, opt.first + opt.many - 1))
print(('%-10s%7s'):format('kind', 'plans') .. '     =1 <=1.01 <=1.05  <=1.1 <=1.25  <=1.5    <=2'
  .. '     >2  median   worst')
measure('tests', of_tests)
measure('rows', of_rows)
