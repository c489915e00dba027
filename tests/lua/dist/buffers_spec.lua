-- SPDX-License-Identifier: MIT
--- Gradients that backward passes make in the buckets of ridge.dist.DataParallel: the numbers of a
--- net by itself, bit by bit, and how many bytes of them were copied.

local ffi = require 'ffi'
local ridge = require 'ridge'
local ranks = require 'tests.lua.dist.ranks'

local nn, dist = ridge.nn, ridge.dist

local function randn(seed, ...)
  return ridge.randn({ ... }, { generator = ridge.generator(seed) })
end

local function mlp()
  return nn.Sequential(nn.Linear(20, 32, { seed = 1 }), nn.ReLU(),
    nn.Linear(32, 32, { seed = 2 }), nn.GELU(), nn.Linear(32, 5, { seed = 3 }))
end

local function lenet()
  return nn.Sequential(nn.Conv2d(1, 6, 3, { seed = 1 }), nn.BatchNorm(6), nn.ReLU(),
    nn.MaxPool2d(2), nn.Conv2d(6, 8, 3, { seed = 2 }), nn.ReLU(), nn.Flatten(),
    nn.Linear(8 * 4, 5, { seed = 3 }))
end

local function block() return nn.TransformerBlock(16, { heads = 2, seed = 1 }) end

-- One weight for two layers, which adds up within a pass.
local Tied = nn.class 'Tied'
function Tied:init() self.layer = self:child('layer', nn.Linear(6, 6, { seed = 1 })) end
function Tied:forward(x) return self.layer(self.layer(x):tanh()) end

-- Computed again in the backward pass.
local Again = nn.class 'Again'
function Again:init() self.inner = self:child('inner', mlp()) end
function Again:forward(x) return ridge.recompute(self.inner, x) end

-- A parameter of the shape of what it is added to: what comes back is nobody's result.
local Shift = nn.class 'Shift'
function Shift:init() self:param('by', ridge.ones(4, 6)) end
function Shift:forward(x) return (x + self.by):square() end

-- One that stands twice in one call.
local Twice = nn.class 'Twice'
function Twice:init() self:param('a', randn(3, 6, 6)) end
function Twice:forward(x) return x:matmul(self.a:matmul(self.a)) end

local NETS = {
  mlp = { mlp, { 8, 20 } }, lenet = { lenet, { 8, 1, 10, 10 } }, block = { block, { 4, 6, 16 } },
  tied = { Tied, { 4, 6 } },
  lowrank = { function() return nn.LowRankLinear(20, 12, { rank = 3, seed = 1 }) end, { 8, 20 } },
  sketched = { function() return nn.SKLinear(32, 24, { num_terms = 1, low_rank = 4, seed = 1 }) end,
    { 8, 32 } },
}

local function copied(net)
  local n = 0
  for _, bucket in ipairs(net:bucket_list()) do n = n + bucket.copied end
  return n
end

local function all_bytes(net)
  local n = 0
  for _, p in ipairs(net:parameters()) do
    if p.tensor.requires_grad then n = n + p.tensor.bytes end
  end
  return n
end

local function zero(net, opts)
  for _, p in ipairs(net:parameters()) do p.tensor:zero_grad(opts) end
end

-- Gradients of both are the same bits.
local function same(a, b, what)
  local theirs = b:parameters()
  for i, p in ipairs(a:parameters()) do
    local g, h = p.tensor.grad, theirs[i].tensor.grad
    assert.equal(g == nil, h == nil, what .. p.name)
    assert.is_true(g == nil or g:equal(h), what .. ' ' .. p.name)
  end
end

-- How many bytes of it are copied behind the first pass, whose gradients are those of a net by
-- itself in each.
local function passes(make, shape, opts, around)
  local alone = make()
  local inner = make()
  local net = dist.DataParallel(inner, opts)
  around = around or function(f, ...) return f(...) end
  for step = 1, 4 do
    local x = randn(step, unpack(shape))
    if step ~= 3 then -- else it is added to
      zero(alone)
      zero(net)
    end
    around(function()
      alone(x):square():mean():backward()
      net(x):square():mean():backward()
    end)
    same(inner, alone, 'step ' .. step)
    if step == 1 then assert.equal(all_bytes(net), copied(net)) end
  end
  return copied(net) - all_bytes(net)
end

describe('gradients in buckets', function()
  for name, each in pairs(NETS) do
    it('are made there: ' .. name, function()
      assert.equal(0, passes(each[1], each[2]))
      assert.equal(0, passes(each[1], each[2], { bucket_mb = 1e-6 }))
    end)
  end

  it('lie as results of kernels do, each type in an arena of its own', function()
    local inner = nn.Sequential(nn.Linear(5, 3, { seed = 1 }), nn.Linear(3, 7, { seed = 2 }),
      nn.Linear(7, 3, { seed = 3 }))
    inner[2]:to 'f64'
    local net = dist.DataParallel(inner, { bucket_mb = 1 })
    function inner:forward(x)
      return self[3](self[2](self[1](x):to 'f64'):to 'f32')
    end
    local wanted
    for step = 1, 2 do
      zero(net)
      net(randn(1, 4, 5)):square():mean():backward()
      for i, p in ipairs(inner:parameters()) do
        local g = p.tensor.grad
        assert.equal(p.tensor.dtype, g.dtype)
        assert.equal(0, tonumber(ffi.cast('intptr_t', g._t._data) % 64), p.name)
        if step == 1 then
          wanted = wanted or {}
          wanted[i] = g:clone()
        else
          assert.is_true(g:equal(wanted[i]), p.name)
        end
      end
    end
    local types = {}
    for i, bucket in ipairs(net:bucket_list()) do
      for _, name in ipairs(bucket.parameters) do
        local of = name:find '%f[%d]2%.' and 'f64' or 'f32'
        assert.is_true(types[i] == nil or types[i] == of, name)
        types[i] = of
      end
    end
    assert.equal(3, #types)
  end)

  it('are made there under autocast, and where parts are computed again', function()
    assert.equal(0, passes(mlp, { 8, 20 }, nil, function(f) ridge.autocast('bf16', f) end))
    assert.equal(0, passes(Again, { 8, 20 }))
  end)

  it('are copied there, and counted, where no call can write them', function()
    assert.equal(3 * 4 * 6 * 4 - 4 * 6 * 4, passes(Shift, { 4, 6 })) -- step 3 adds
    assert.is_true(passes(Twice, { 4, 6 }) >= 0)
  end)

  it('are where they were behind zero_grad, and are the same tensor', function()
    local inner = mlp()
    local net = dist.DataParallel(inner)
    local x = randn(1, 8, 20)
    net(x):sum():backward()
    local kept = inner[1].weight.grad
    local before = kept:clone()
    for _, set in ipairs { false, true } do
      zero(net, { set = set })
      net(x * 2):sum():backward()
      assert.is_false(kept:equal(before))
      assert.is_true(kept:equal(inner[1].weight.grad))
    end
  end)

  it('are not written over what a call has saved, or what is handed out', function()
    local inner = nn.Linear(6, 6, { seed = 1, bias = false })
    local net = dist.DataParallel(inner)
    local x = randn(1, 4, 6)
    net(x):square():sum():backward()
    local w = inner.weight
    local g = w.grad
    local old = g:clone()
    zero(net)
    local product = (w * g):sum() -- saves g, which is read behind the net's gradient
    local loss = (net(x) * 3):sum() + product
    loss:backward()
    local wanted = randn(1, 4, 6):sum { 1 }:reshape(1, 6):expand(6, 6) * 3 + old
    assert.is_true((w.grad - wanted):abs():max():item() < 1e-4)
    -- handed out: .grad stays, and what is given is not the bucket's memory
    local had = w.grad:clone()
    local out = ridge.grad(net(x):sum(), w)
    assert.is_true(w.grad:equal(had))
    zero(net)
    net(x * 5):sum():backward()
    assert.is_true((out - randn(1, 4, 6):sum { 1 }:reshape(1, 6)):abs():max():item() < 1e-4)
  end)

  it('come back where gradients were off, and of parts of larger tensors', function()
    local inner = mlp()
    local net = dist.DataParallel(inner)
    local x = randn(1, 8, 20)
    local function step()
      zero(net)
      net(x):square():sum():backward()
    end
    step()
    step()
    inner[1].weight:requires_grad_(false)
    step()
    assert.is_nil(inner[1].weight.grad)
    inner[1].weight:requires_grad_(true)
    step()
    local alone = mlp()
    alone(x):square():sum():backward()
    same(inner, alone, 'on again')
    local n = copied(net)
    step()
    assert.equal(n, copied(net))
    same(inner, alone, 'later')
  end)

  it('are converted alone where they are sent in another type', function()
    for _, kind in ipairs { 'bf16', 'f16' } do
      local inner, alone = mlp(), mlp()
      local net = dist.DataParallel(inner, { compress = kind })
      for step = 1, 3 do
        local x = randn(step, 8, 20)
        zero(net)
        zero(alone)
        net(x):square():mean():backward()
        alone(x):square():mean():backward()
        for i, p in ipairs(inner:parameters()) do
          assert.is_true(p.tensor.grad:equal(alone:parameters()[i].tensor.grad:to(kind):to 'f32'))
        end
      end
      assert.equal(all_bytes(net), copied(net))
    end
    local halves = dist.DataParallel(mlp():to 'bf16')
    for step = 1, 3 do
      zero(halves)
      halves(randn(step, 8, 20):to 'bf16'):square():mean():backward()
    end
    assert.equal(all_bytes(halves), copied(halves))
  end)

  it('are sent behind the hooks that change them', function()
    local inner = nn.Linear(3, 2, { seed = 1 })
    local net = dist.DataParallel(inner, { bucket_mb = 1e-6 })
    inner.weight:on_gradient(function(w) w.grad:mul_(2) end)
    for _ = 1, 2 do
      zero(net)
      net(ridge.ones(4, 3)):sum():backward()
      assert.equal(8, inner.weight.grad[1][1]:item())
    end
  end)

  ranks.several({ it = it, pending = pending }, 'are not copied on ranks, in steps of any kind',
    function()
      local text, status = ranks.launch(2, 'tests/lua/dist/buffers_child.lua')
      assert.equal(0, status, text)
      for _, name in ipairs { 'mlp', 'lenet', 'block' } do
        for _, how in ipairs { 'plain', 'bf16', 'clip', 'accumulate', 'set', 'sharded',
          'uneven' } do
          assert.equal(2, ranks.lines(text, ('%%] %s %s 0 true$'):format(name, how)), text)
        end
      end
      assert.equal(2, ranks.lines(text, '%] trainer plain 0 true$'), text)
      assert.equal(2, ranks.lines(text, '%] trainer compile 0 true$'), text)
    end)
end)
