-- SPDX-License-Identifier: MIT
--- Batch normalisation over ranks beside one of the whole batch, on every rank.

local ridge = require 'ridge'
local nn, dist = ridge.nn, ridge.dist

local world = dist.init { timeout = 120 }
local rank, size = world.rank, world.size

local function off(a, b)
  if a.count == 0 then return 0 end
  a, b = a:to 'f64', b:to 'f64'
  return ((a - b):abs():max() / b:abs():max()):item()
end

-- A trained layer with numbers of its own, after `wide` so that references may be of another type.
local function layer(n, opts, dtype)
  local m = nn.BatchNorm(n, opts)
  if m.weight then
    m.weight:detach():copy_(ridge.randn(n, { generator = ridge.generator(8) }))
    m.bias:detach():copy_(ridge.randn(n, { generator = ridge.generator(9) }))
  end
  return (dtype == 'f32' and m or m:to(dtype)):train()
end

-- What a batch in these parts comes to: rows[r] on rank r - 1, the loss of each rank the mean of
-- its own.
local function compare(name, rows, shape, given)
  local dtype, wanted = given.dtype or 'f32', given.wide or given.dtype or 'f32'
  local all, before = 0, 0
  for r, n in ipairs(rows) do
    all = all + n
    before = before + (r <= rank and n or 0)
  end
  shape = { all, unpack(shape) }
  local draws = ridge.generator(5)
  local x = (ridge.randn(shape, { generator = draws }) * 2 + (given.mean or 0)):to(dtype)
  local t = ridge.randn(shape, { generator = draws }):to(dtype)
  local channels = shape[given.layout == 'nhwc' and #shape or 2]
  local opts = { affine = given.affine, layout = given.layout }
  local mine = rows[rank + 1]
  local function part(y) return y:narrow(1, before + 1, mine) end

  local one, x1 = layer(channels, opts, wanted), x:clone():to(wanted):requires_grad_()
  local y1 = one(x1)
  local counted = given.ignored and size > 1 and all - rows[size] or all
  local loss = y1 * t:to(wanted)
  ;(loss:narrow(1, 1, counted):sum() / counted):backward()

  local net = dist.DataParallel(layer(channels, opts, dtype), { sync_batch_norm = true }):train()
  local m, x2 = net.module, part(x):clone():requires_grad_()
  local nothing = given.ignored and rank > 0 and rank == size - 1
  if nothing then net.weighs = 0 end
  local y2 = net(x2)
  ;((y2 * part(t)):sum() / (nothing and 0 / 0 or math.max(mine, 1))):backward()

  local list = { y = off(y2, part(y1)),
    dx = off(x2.grad:to 'f64' * (mine / counted), part(x1.grad)),
    mean = off(m.running_mean, one.running_mean), var = off(m.running_var, one.running_var) }
  if m.weight then
    list.weight, list.bias = off(m.weight.grad, one.weight.grad), off(m.bias.grad, one.bias.grad)
  end
  if given.ignored and rank == size - 1 then list.dx = nil end -- of a loss that does not count
  for what, value in pairs(list) do
    if not (value <= (given.within or 1e-5)) then print('off', name, what, value) end
  end
  local same, why = dist.same { m.running_mean, m.running_var }
  print(('%s %s %s'):format(name, tostring(same), why or ''))
end

-- Rows of the ranks: uneven ones.
local function uneven(n)
  local list = {}
  for r = 1, size do list[r] = n + 2 * (r % 2) end
  return list
end

local ragged = uneven(3)
ragged[size] = size > 1 and 0 or 5
compare('rows', uneven(4), { 5 }, {})
compare('images', uneven(2), { 5, 4, 3 }, {})
compare('last', uneven(2), { 4, 3, 5 }, { layout = 'nhwc' })
compare('series', uneven(2), { 3, 7 }, { affine = false })
compare('empty', ragged, { 5, 4, 3 }, {})
compare('ignored', uneven(4), { 5, 4 }, { ignored = true }) -- the loss of the last rank is nan
compare('f64', uneven(4), { 5 }, { dtype = 'f64', mean = 3, within = 1e-12 })
compare('far', uneven(4), { 5, 8, 8 }, { mean = 3000, wide = 'f64' })
compare('bf16', uneven(5), { 5, 4, 4 }, { dtype = 'bf16', wide = 'f64', within = 1e-2 })
compare('f16', uneven(5), { 5, 4, 4 }, { dtype = 'f16', wide = 'f64', within = 2e-3 })

-- In evaluation mode, and by a copy, nobody asks the others.
local net = dist.DataParallel(nn.Sequential(nn.Linear(3, 2, { seed = 1 }), nn.BatchNorm(2)),
  { sync_batch_norm = true })
if rank == 0 then
  net:eval()(ridge.ones(4, 3))
  net.module:clone():train()(ridge.randn(4, 3))
end
net:train()(ridge.randn(2, 3)):sum():backward()
print(('alone %s'):format(tostring(dist.same(net))))

-- Computed once more, a batch is in the running statistics once.
local before = net.module[2].running_mean:clone()
local x = ridge.full(rank + 1, 2, 3)
local plain = net.module[1](x)
local mean = dist.all_reduce(plain:mean({ 1 }), 'mean')
ridge.recompute(function(y) return net.module[2](y) end, plain):sum():backward()
print(('again %s'):format(tostring(net.module[2].running_mean:allclose(before * 0.9 + mean * 0.1))))
