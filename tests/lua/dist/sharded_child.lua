-- SPDX-License-Identifier: MIT
--- Optimizers that are sharded beside the same that are not: sharded_child.lua FOLDER.

local ridge = require 'ridge'
local nn, dist = ridge.nn, ridge.dist

local folder = arg[1]
local world = dist.init { timeout = 60 }

local function net()
  return nn.Sequential(nn.Linear(7, 11, { seed = 1 }), nn.ReLU(), nn.Linear(11, 3, { seed = 2 }))
end

local function equal(a, b)
  local list = b:parameters()
  for i, p in ipairs(a:parameters()) do
    if not p.tensor:equal(list[i].tensor) then return false end
  end
  return true
end

local function count(x)
  local n = 0
  for _ in pairs(x) do n = n + 1 end
  return n
end

local function step(model, optimizer, k, scale)
  optimizer:zero_grad()
  local x = ridge.randn(5, 7, { generator = ridge.generator(k) })
  nn.cross_entropy(model(x), ridge.tensor({ 0, 1, 2, 0, 1 }, { dtype = 'i64' })):backward()
  optimizer:step(scale and { scale = scale })
end

local CASES = {
  { 'SGD', { lr = 0.1, momentum = 0.9, nesterov = true, weight_decay = 0.01 } },
  { 'SGD', { lr = 0.1 } },
  { 'Adam', { lr = 0.01, amsgrad = true, weight_decay = 0.1 } },
  { 'AdamW', { lr = 0.01 } },
  { 'Lion', { lr = 0.01, weight_decay = 0.1 } },
}

for i, case in ipairs(CASES) do
  local a, b = net(), net()
  local Kind = ridge.optim[case[1]]
  local groups = function(m)
    return { { params = m[1]:parameters() }, { params = m[3]:parameters(), lr = 0.02 } }
  end
  local whole = Kind(i == 4 and groups(a) or a, case[2])
  local part = dist.Sharded(Kind(i == 4 and groups(b) or b, case[2]))
  for k = 1, 5 do
    local scale = k == 3 and ridge.tensor(0.5, { dtype = 'f64' })
      or k == 4 and ridge.tensor(math.huge, { dtype = 'f64' }) or nil
    step(a, whole, k, scale)
    step(b, part, k, scale)
    if k == 2 then
      whole:lr(0.05)
      part:lr(0.05)
    end
  end
  local same = equal(a, b) and part:steps() == whole:steps() and part:steps() == 4
  local mine, all, n = part:state(), whole:state(), 0
  for name, x in pairs(all) do
    same = same and x:equal(mine[name])
    n = n + 1
  end
  same = same and count(mine) == n
  print(('steps %s %d %s'):format(case[1], i, tostring(same)))
  -- a state goes on in an optimizer of its own kind, sharded or not
  local c = net()
  local other = Kind(i == 4 and groups(c) or c, case[2])
  for j, p in ipairs(c:parameters()) do p.tensor:detach():copy_(b:parameters()[j].tensor) end
  local again = dist.Sharded(other):load_state(mine)
  step(a, whole, 9)
  step(c, again, 9)
  print(('loaded %s %d %s'):format(case[1], i, tostring(equal(a, c))))
  local bytes = dist.all_gather(ridge.tensor(part:bytes(), { dtype = 'f64' }))
  if world.rank == 0 then
    local list = {}
    for r = 1, world.size do list[r] = ('%d'):format(bytes[r]:item()) end
    print(('bytes %s %d %s'):format(case[1], i, table.concat(list, ' ')))
  end
end

-- Over another number of ranks: what the one before wrote.
local path = folder .. '/state.safetensors'
local net_ = net()
local optimizer = dist.Sharded(ridge.optim.AdamW(net_, { lr = 0.01 }))
local file = io.open(path, 'rb')
local whole = net()
local plain = ridge.optim.AdamW(whole, { lr = 0.01 })
for k = 1, 3 do step(whole, plain, k) end
if file then
  file:close()
  optimizer:load_state(ridge.load(path))
  for j, p in ipairs(net_:parameters()) do p.tensor:detach():copy_(whole:parameters()[j].tensor) end
else
  for k = 1, 3 do step(net_, optimizer, k) end
  local state = optimizer:state()
  if world.rank == 0 then ridge.save(path, state) end
end
step(whole, plain, 4)
step(net_, optimizer, 4)
print('over', tostring(equal(whole, net_)))

-- Fewer elements than ranks, and a parameter without a gradient.
local small = nn.Linear(1, 1, { seed = 1 })
local twin = nn.Linear(1, 1, { seed = 1 })
local one = dist.Sharded(ridge.optim.AdamW(small))
local two = ridge.optim.AdamW(twin)
for k = 1, 3 do
  for m, o in pairs { [small] = one, [twin] = two } do
    o:zero_grad()
    m.weight:sum():backward()
    o:step { scale = ridge.tensor(k == 2 and math.huge or 1, { dtype = 'f64' }) }
  end
end
print('small', tostring(equal(small, twin) and one:steps() == 2))
-- More than is sent at once, and two types in one group.
local function mixed()
  return { ridge.full(0.5, 1500, 1001), ridge.full(0.5, 3, 3):to 'bf16',
    ridge.full(0.25, 1700, 1801), ridge.full(0.25, 7):to 'bf16' }
end
local big, large = mixed(), mixed()
local first = ridge.optim.SGD(big, { lr = 0.1, momentum = 0.9 })
local second = dist.Sharded(ridge.optim.SGD(large, { lr = 0.1, momentum = 0.9 }))
for _ = 1, 2 do
  for list, o in pairs { [big] = first, [large] = second } do
    o:zero_grad()
    for k, t in ipairs(list) do
      (t * ridge.rand(t:size(), { generator = ridge.generator(k) }):to(t.dtype)):sum():backward()
    end
    o:step()
  end
end
local all_same = true
for k, t in ipairs(big) do all_same = all_same and t:equal(large[k]) end
print('large', tostring(all_same))
local ok, err = pcall(function()
  small.weight = ridge.ones(1, 1)
  one:step()
end)
print('replaced', tostring(ok), tostring(err):match '[^\n]*')
ok, err = pcall(dist.Sharded, ridge.optim.SGD(net(), { lr = world.rank + 1 }))
print('differ', tostring(ok), tostring(err):match '[^\n]*')
