-- SPDX-License-Identifier: MIT
--- Gradients of nets in unusual states, each beside those of the same net by itself on the rows of
--- all ranks: how far are they apart, and have all ranks the same?

local ridge = require 'ridge'
local nn, dist = ridge.nn, ridge.dist
local world = dist.init { timeout = 120 }

local ROWS = 4

local function batch(seed, width)
  return ridge.randn({ ROWS * world.size, width }, { generator = ridge.generator(seed) })
end

-- This rank's rows.
local function part(x) return x:narrow(1, world.rank * ROWS + 1, ROWS) end

local function layer(seed, n, opts)
  opts = opts or {}
  opts.seed = seed
  return nn.Linear(n or 6, n or 6, opts)
end

-- The largest difference of gradients; what only one has is infinitely far.
local function apart(a, b)
  local most, theirs = 0, b:parameters()
  for i, p in ipairs(a:parameters()) do
    local g, h = p.tensor.grad, theirs[i].tensor.grad
    if (g == nil) ~= (h == nil) then return math.huge end
    if g and g.count > 0 then
      most = math.max(most, (g:to 'f32' - h:to 'f32'):abs():max():item())
    end
  end
  return most
end

local function zero(...)
  for _, net in ipairs { ... } do
    for _, p in ipairs(net:parameters()) do p.tensor:zero_grad() end
  end
end

local function say(name, most, net)
  local grads = {}
  for _, p in ipairs(net:parameters()) do grads[#grads + 1] = p.tensor.grad end
  print(('%s %s %s'):format(name, most < 1e-5 and 'near' or ('%g'):format(most),
    tostring((dist.same(grads)))))
end

local CASES = {}

-- Two branches, of which a call takes one or both.
local Branches = nn.class 'Branches'
function Branches:init()
  self.a, self.b = self:child('a', layer(1)), self:child('b', layer(2))
end
function Branches:forward(x, a, b)
  local y = x * 0
  if a then y = y + self.a(x) end
  if b then y = y + self.b(x) end
  return y
end

-- One rank alone has a gradient of b, in the first pass or later.
function CASES.branch()
  for first = 0, 1 do
    local inner, alone = Branches(), Branches()
    local net = dist.DataParallel(inner, { bucket_mb = 1e-6 })
    local most = 0
    for step = 1, 4 do
      local x = batch(step, 6)
      zero(inner, alone)
      local used = (step + first) % 2 == 0
      net(part(x), true, used and world.rank == world.size - 1):square():mean():backward()
      local rows = {}
      for r = 0, world.size - 1 do
        rows[r + 1] = alone(x:narrow(1, r * ROWS + 1, ROWS), true, used and r == world.size - 1)
      end
      ridge.concat(rows, 1):square():mean():backward()
      most = math.max(most, apart(inner, alone))
    end
    say('branch' .. first, most, inner)
  end
end

function CASES.frozen()
  local function make() return nn.Sequential(layer(1), nn.Tanh(), layer(2)) end
  local inner, alone = make(), make()
  local net = dist.DataParallel(inner)
  local most = 0
  for step = 1, 6 do
    local x = batch(step, 6)
    local on = step % 3 ~= 2
    inner[1].weight:requires_grad_(on)
    alone[1].weight:requires_grad_(on)
    zero(inner, alone)
    net(part(x)):square():mean():backward()
    alone(x):square():mean():backward()
    most = math.max(most, apart(inner, alone))
  end
  say('frozen', most, inner)
end

-- Added up over passes, and two passes through one forward pass.
function CASES.passes()
  local function make() return nn.Sequential(layer(1), nn.Tanh(), layer(2)) end
  local inner, alone = make(), make()
  local net = dist.DataParallel(inner, { bucket_mb = 1e-6 })
  local most = 0
  for step = 1, 3 do
    local x = batch(step, 6)
    zero(inner, alone)
    local mine, whole = net(part(x)):square():mean(), alone(x):square():mean()
    for _ = 1, 2 do
      mine:backward { retain = true }
      whole:backward { retain = true }
    end
    mine:backward()
    whole:backward()
    local other = alone(x):sum() / world.size -- of another loss, added to it
    other:backward()
    net(part(x)):sum():backward()
    most = math.max(most, apart(inner, alone))
  end
  say('passes', most, inner)
end

-- Parameters of several types, and of none at all.
local Mixed = nn.class 'Mixed'
function Mixed:init()
  self.a, self.b, self.c = self:child('a', layer(1)), self:child('b', layer(2):to 'bf16'),
    self:child('c', layer(3):to 'f16')
  self:param('empty', ridge.zeros(0, 3))
  self:param('one', ridge.ones(1))
end
function Mixed:forward(x)
  local y = self.c(self.b(self.a(x):to 'bf16'):to 'f16'):to 'f32'
  return y * self.one + self.empty:sum()
end

function CASES.mixed()
  local inner, alone = Mixed(), Mixed()
  local net = dist.DataParallel(inner, { bucket_mb = 1e-6 })
  local most = 0
  for step = 1, 3 do
    local x = batch(step, 6)
    zero(inner, alone)
    net(part(x)):square():mean():backward()
    alone(x):square():mean():backward()
    most = math.max(most, apart(inner, alone))
  end
  say('mixed', most < 2e-3 and 0 or most, inner) -- bf16 rounds sums of other rows
end

local Tied = nn.class 'Tied'
function Tied:init()
  self.a, self.b = self:child('a', layer(1, 6, { bias = false })),
    self:child('b', layer(2, 6, { bias = false }))
  self.b.weight = self.a.weight
end
function Tied:forward(x) return self.b(self.a(x):tanh()) end

function CASES.tied()
  local inner, alone = Tied(), Tied()
  local net = dist.DataParallel(inner, { bucket_mb = 1e-6 })
  local most = 0
  for step = 1, 3 do
    local x = batch(step, 6)
    zero(inner, alone)
    net(part(x)):square():mean():backward()
    alone(x):square():mean():backward()
    most = math.max(most, apart(inner, alone))
  end
  say('tied', most, inner)
end

-- What is kept of a gradient, and what is set in its place.
function CASES.kept()
  local inner, alone = layer(1), layer(1)
  local net = dist.DataParallel(inner)
  local x = batch(1, 6)
  local kept
  for _ = 1, 3 do
    zero(inner, alone)
    net(part(x)):square():mean():backward()
    alone(x):square():mean():backward()
    kept = kept or inner.weight.grad:clone()
  end
  local most = math.max(apart(inner, alone), (kept - inner.weight.grad):abs():max():item())
  inner.weight.grad:mul_(3) -- clipped by hand, and added to
  alone.weight.grad:mul_(3)
  net(part(x)):square():mean():backward()
  alone(x):square():mean():backward()
  say('kept', math.max(most, apart(inner, alone)), inner)
end

-- A net that nobody keeps, which the collector comes upon on one rank alone: between its call and
-- the backward pass, and while that is under way.
function CASES.unkept()
  local most, inner, alone = 0, layer(1), layer(1)
  for step = 1, 2 do
    local x = batch(step, 6)
    zero(inner, alone)
    local y = dist.DataParallel(inner)(part(x))
    if world.rank == 0 then for _ = 1, 3 do collectgarbage() end end
    y = y:square():mean()
    local hook = step == 2 and inner.weight:on_gradient(function()
      if world.rank == 0 then for _ = 1, 3 do collectgarbage() end end
    end)
    y:backward()
    if hook then hook:remove() end
    alone(x):square():mean():backward()
    most = math.max(most, apart(inner, alone))
  end
  say('unkept', most, inner)
end

-- What is trained that was not when the net was made is no part of what is averaged: a layer that
-- is added, one that was frozen, another tensor. That is refused, and not trained apart.
local LATER = {
  function(inner) inner:child('2', layer(2)) end,
  function(inner) inner[1].bias:requires_grad_(true) end,
  function(inner) inner[1].weight = ridge.ones(6, 6) end,
}

function CASES.added()
  for i, change in ipairs(LATER) do
    local inner = nn.Sequential(layer(1))
    inner[1].bias:requires_grad_(false)
    local net = dist.DataParallel(inner)
    net(part(batch(1, 6))):sum():backward()
    change(inner)
    local ok, err = pcall(net, part(batch(2, 6)))
    print(('added%d %s %s'):format(i, tostring(ok), (tostring(err):gsub('\n.*', ''))))
    ridge.inference(function() net(part(batch(3, 6))) end) -- nothing is trained by that
    dist.DataParallel(inner)(part(batch(2, 6))):square():mean():backward()
    say('again' .. i, 0, inner)
  end
end

-- Moments that are shared out, batch norms of all rows, clipping, plans.
function CASES.all()
  for _, compile in ipairs { false, true } do
    local inner = nn.Sequential(layer(1), nn.BatchNorm(6), nn.ReLU(), layer(2))
    local net = dist.DataParallel(inner, { sync_batch_norm = true, bucket_mb = 1e-6 })
    local trainer = ridge.Trainer(net, { compile = compile, world = world, log_every = 0,
      optimizer = dist.Sharded(ridge.optim.AdamW(net, { lr = 0.01 })), say = function() end,
      clip = 0.1 })
    local y = ridge.randint(0, 6, ROWS * world.size, { generator = ridge.generator(2) })
    trainer:fit(ridge.data.Loader({ batch(1, 6), y },
      { batch = ROWS / 2, seed = 4, world = world }), { epochs = 3 })
    local sum = 0
    for _, p in ipairs(inner:parameters()) do sum = sum + p.tensor:abs():sum():item() end
    print(('all %s %.4f'):format(tostring((dist.same(inner))), sum))
  end
end

for _, name in ipairs { 'branch', 'frozen', 'passes', 'mixed', 'tied', 'kept', 'unkept', 'added',
  'all' } do
  if not arg[1] or arg[1] == name then
    local ok, err = pcall(CASES[name])
    if not ok then print(name, 'failed', (tostring(err):gsub('\n', ' | '))) end
  end
end
