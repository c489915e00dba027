-- SPDX-License-Identifier: MIT
--- Running statistics of batches that nn.DataParallel works off in parts: those of all parts.

local ridge = require 'ridge'
local nn = ridge.nn
local simulated = dofile 'tests/lua/simulated.lua'

local function near(a, b)
  return ((a:to('cpu'):to 'f64' - b:to 'f64'):abs():max() / b:to('f64'):abs():max()):item() <= 1e-6
end

local function like(norm, wanted)
  assert.is_true(near(norm.running_mean, wanted.running_mean))
  assert.is_true(near(norm.running_var, wanted.running_var))
end

local lists = { { 'cpu', 'cpu' }, { 'cpu', 'cpu', 'cpu' } }
if simulated.open() then lists[3] = { 'cpu', 'sim:0', 'sim:1' } end

describe('running statistics of all parts', function()
  it('are those of the whole batch, step after step', function()
    for _, devices in ipairs(lists) do
      for _, each in ipairs { { { 7, 5 } }, { { 8, 3, 4, 4 } }, { { 5, 4, 3 }, 'nhwc' } } do
        local shape, layout = each[1], each[2]
        local n = layout and shape[#shape] or shape[2]
        local opts = { layout = layout or 'nchw', momentum = 0.3 }
        local alone = nn.BatchNorm(n, opts):train()
        local net = nn.DataParallel(nn.BatchNorm(n, opts), { devices = devices, running = 'all' })
        net:train()
        for step = 1, 3 do -- channels far from 0: E[x^2] - E[x]^2 would lose them
          local x = ridge.randn(shape, { generator = ridge.generator(step) }) + 300 * step
          alone(x)
          net(x):sum():backward()
        end
        like(net.module, alone)
        net:eval()(ridge.randn(shape))
        like(net.module, alone)
      end
    end
  end)

  it('are of each layer, also of one that is called twice and computed once more', function()
    local Twice = nn.class 'Twice'
    function Twice:init()
      self.first = self:child('first', nn.BatchNorm(4))
      self.second = self:child('second', nn.BatchNorm(4))
    end
    function Twice:forward(x) return self.second(self.second(self.first(x)):relu() * 3 + 1) end
    local x = ridge.randn(9, 4, { generator = ridge.generator(1) })
    local parts = { x:narrow(1, 1, 4), x:narrow(1, 5, 5) }
    local first, second = nn.BatchNorm(4):train(), nn.BatchNorm(4):train()
    local between, later = {}, {}
    for i, part in ipairs(parts) do -- by layers of their own
      between[i] = nn.BatchNorm(4):train()(part)
      later[i] = nn.BatchNorm(4):train()(between[i]):relu() * 3 + 1
    end
    first(x)
    second(ridge.concat(between, 1))
    second(ridge.concat(later, 1))
    for _, again in ipairs { false, true } do
      local net = Twice()
      if again then net:recompute() end
      local all = nn.DataParallel(net, { devices = { 'cpu', 'cpu' }, running = 'all' }):train()
      all(x):square():sum():backward()
      like(net.first, first)
      like(net.second, second)
    end
  end)

  it('are kept by a plan at each replay', function()
    local alone = nn.BatchNorm(4):train()
    local net = nn.DataParallel(nn.BatchNorm(4), { devices = { 'cpu', 'cpu' }, running = 'all' })
    net:train()
    local x = ridge.randn(7, 4, { generator = ridge.generator(1) })
    local plan = ridge.capture(net, x)
    alone(x)
    plan:run()
    alone(x)
    like(net.module, alone)
  end)

  it('are those of the first device where nothing is said', function()
    local alone = nn.BatchNorm(4):train()
    local net = nn.DataParallel(nn.BatchNorm(4), { devices = { 'cpu', 'cpu' } }):train()
    local x = ridge.randn(6, 4)
    net(x)
    alone(x:narrow(1, 1, 3))
    alone(x:narrow(1, 4, 3))
    like(net.module, alone)
  end)

  it('are as they were where a part fails', function()
    local Fails = nn.class 'Fails'
    function Fails:init() self.norm = self:child('norm', nn.BatchNorm(4)) end
    function Fails:forward(x)
      x = self.norm(x)
      if self.fails then error 'no luck' end
      return x
    end
    local net = Fails()
    local all = nn.DataParallel(net, { devices = { 'cpu', 'cpu' }, running = 'all' }):train()
    local alone, x = nn.BatchNorm(4):train(), ridge.randn(6, 4)
    net.fails = true
    assert.is_false(pcall(all, x))
    net.fails = false
    net.norm(x) -- by itself it keeps them as ever
    alone(x:narrow(1, 1, 3))
    alone(x)
    like(net.norm, alone)
  end)
end)
