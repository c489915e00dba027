-- SPDX-License-Identifier: MIT
--- Are the networks of nets.lua those of onnx_bench.py? Takes the weights that it wrote, runs its
--- input, and says how far the result is from ONNX Runtime's, beside the largest number in that:
--- eager, and as plans with and without passes that round in other places.
--
--     python3 scripts/peers/onnx_bench.py --weights DIR
--     ./ridge scripts/peers/same_nets.lua --weights DIR

local ridge = require 'ridge'
local nets = dofile((debug.getinfo(1, 'S').source:match '^@(.*/)' or '') .. 'nets.lua')

local opt = ridge.args {
  { 'weights', '.', 'folder that onnx_bench.py wrote' },
  { 'most', 1e-4, 'the largest difference that is none, as a part of the largest number' },
}

local function distance(y, wanted)
  return (y - wanted):abs():max():item() / wanted:abs():max():item()
end

local function optimized(...)
  local names = {}
  for i, pass in ipairs(ridge.graph.passes()) do names[i] = pass.name end
  return ridge.graph(...):optimize(names):plan()()
end

local n_wrong, n = 0, 0
for _, case in ipairs(nets.cases) do
  local name, net = case[1], case[2]()
  local path = ('%s/%s.safetensors'):format(opt.weights, name)
  local file = io.open(path)
  if file then
    file:close()
    local given, state = ridge.load(path), {}
    for i, p in ipairs(net:parameters()) do state[p.name] = given[('%04d'):format(i)] end
    net:load_state(state):eval()
    local ways = {
      eager = ridge.inference(net, given.x),
      plan = ridge.capture(ridge.inference, net, given.x)(),
      passes = optimized(ridge.inference, net, given.x),
    }
    local apart = {}
    for _, way in ipairs { 'eager', 'plan', 'passes' } do
      local d = distance(ways[way], given.y)
      n = n + 1
      if not (d <= opt.most) then n_wrong = n_wrong + 1 end
      apart[#apart + 1] = ('%s %.1e'):format(way, d)
    end
    print(('%-16s %s'):format(name, table.concat(apart, ', ')))
  end
end
if n == 0 then error(('there are no weights in %s'):format(opt.weights), 0) end
if n_wrong > 0 then
  error(('%d of %d results differ by more than %g'):format(n_wrong, n, opt.most), 0)
end
