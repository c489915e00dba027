-- SPDX-License-Identifier: MIT
-- What the host waits for while a device trains: for the numbers that the user reads, and for
-- nothing else.
local ffi = require 'ffi'
local ridge = require 'ridge'
local nn, optim = ridge.nn, ridge.optim
local simulated = dofile 'tests/lua/simulated.lua'
local counted = dofile 'tests/lua/counted.lua'

local GPU = 'sim:0'

local function silent() end

local function data(rows)
  local x = ridge.randn(rows, 6, { generator = ridge.generator(3) })
  return x, x:argmax(2)
end

local function network(dropout)
  return nn.Sequential(nn.Linear(6, 16, { seed = 1, activation = 'gelu' }), nn.LayerNorm(16),
    nn.Dropout(dropout), nn.Linear(16, 6, { seed = 2 }))
end

describe('the host of a training device', function()
  if not simulated.open() then
    return it('is nothing here', function() pending 'no nvcc: no simulated device was built' end)
  end
  -- work is done when it is waited for, and not before: each wait is one that is counted
  setup(function() ffi.C.setenv('RG_SIM_ORDER', 'fwd', 1) end)

  -- A step of training as a user writes it; gives the loss.
  local function make(kind, dropout, recomputes)
    local x, y = data(32)
    x, y = x:to(GPU), y:to(GPU)
    local net = network(dropout):train():to(GPU)
    if recomputes then net:recompute(2) end
    local o = optim.AdamW(net, { lr = 0.01 })
    local schedule = optim.CosineLR(o, { steps = 100, warmup = 3 })
    local scaler = kind == 'f16' and optim.GradScaler { scale = 64, interval = 3 }
    return function()
      o:zero_grad { set = true }
      local out = kind == 'f32' and net(x) or ridge.autocast(kind, net, x)
      local loss = nn.cross_entropy(out, y)
      if scaler then
        scaler:scale(loss):backward()
        scaler:step(o, { clip = 1 })
      else
        loss:backward()
        o:step { scale = o:clip(1) }
      end
      return loss
    end, schedule
  end

  -- n steps, of which every fifth loss is read.
  local function go(step, schedule, n)
    return counted.during(function()
      local read = 0
      for i = 1, n do
        local loss = step()
        schedule:step()
        if i % 5 == 0 then
          assert.is_true(loss:item() < 10)
          read = read + 1
        end
      end
      return read
    end)
  end

  for _, kind in ipairs { 'f32', 'bf16', 'f16' } do
    for _, case in ipairs { { 0, false }, { 0.2, false }, { 0, true } } do
      local what = ('%s%s%s'):format(kind, case[1] > 0 and ', dropout' or '',
        case[2] and ', recomputed' or '')

      it('waits only for what is read, call by call: ' .. what, function()
        local step, schedule = make(kind, case[1], case[2])
        go(step, schedule, 3)
        local did, read = go(step, schedule, 10)
        assert.same({ 2, 2, 2, 0 }, { read, did.downloads, did.waits, did.graphs })
      end)

      it('waits only for what is read, as one graph: ' .. what, function()
        local step, schedule = make(kind, case[1], case[2])
        step()
        local plan = ridge.capture(step)
        plan:run(2)
        assert.is_true(plan:facts().device_graph, plan:facts().why)
        local did, read = go(function() return (plan:run()) end, schedule, 20)
        assert.same({ 4, 4, 4, 20 }, { read, did.downloads, did.waits, did.graphs })
        assert.equal(20, did.launches) -- the rates, which the schedule writes
        local drawn = case[1] > 0 and 20 or 0 -- where the random numbers begin
        assert.same({ 0, drawn }, { did.allocations, did.uploads })
      end)
    end
  end

  for _, kind in ipairs { 'norm', 'global_norm', 'value', 'adaptive', 'layer_wise', 'percentile',
    'exponential' } do
    it('waits for no clipping, and a graph clips as the calls do: ' .. kind, function()
      local function clipping()
        local x, y = data(32)
        x, y = x:to(GPU), y:to(GPU)
        local net = network(0):train():to(GPU)
        local o = optim.SGD(net, { lr = 0.5 })
        local clip = optim.Clip { kind = kind, max_norm = 0.3, max_value = 0.01,
          adaptive_threshold = 0.2, adaptive_factor = 0.9, percentile_threshold = 80 }
        return net, function()
          o:zero_grad { set = true }
          nn.cross_entropy(net(x), y):backward()
          local found = clip:apply(o)
          o:step()
          return found
        end
      end
      local one, step = clipping()
      local wanted = {}
      for i = 1, 16 do wanted[i] = step() end
      local two, again = clipping()
      again()
      again()
      local did, plan = counted.during(function()
        again()
        return ridge.capture(again)
      end)
      assert.same({ 0, 0 }, { did.waits, did.downloads })
      plan:run(2)
      assert.is_true(plan:facts().device_graph, plan:facts().why)
      for i = 7, 16 do
        did = counted.during(plan.run, plan)
        assert.same({ 1, 0, 0 }, { did.graphs, did.launches, did.waits })
        local found = plan.results[1]
        for name in pairs { gradient_norm = 1, clipped_norm = 1, clipping_ratio = 1,
          adaptive_threshold = 1, percentile_threshold = 1, exp_threshold = 1 } do
          assert.equal(wanted[i][name], found[name], i .. name)
        end
        assert.is_true(found.clipped_norm <= found.gradient_norm)
        local ratios = found.layer_clipping_ratios
        assert.equal(kind == 'layer_wise', ratios ~= nil)
        for _, p in ipairs(ratios and one:parameters() or {}) do
          assert.equal(wanted[i].layer_clipping_ratios[p.name], ratios[p.name], i .. p.name)
        end
      end
      for i, p in ipairs(one:parameters()) do
        assert.is_true(p.tensor:equal(two:parameters()[i].tensor), p.name)
      end
    end)
  end

  -- Of one batch more, in an epoch of the trainer.
  local function each_batch(opts, loading)
    local function run(batches)
      local x, y = data(batches * 16)
      local net = network(0.1):to(GPU)
      local o = optim.AdamW(net, { lr = 0.01 })
      local given = { optimizer = o, say = silent, schedule = optim.CosineLR(o, { steps = 99 }) }
      for key, value in pairs(opts()) do given[key] = value end
      local t = ridge.Trainer(net, given)
      local loader = ridge.data.Loader({ x, y }, { batch = 16, seed = 5, device = loading })
      t:fit(loader, { epochs = 1 })
      return (counted.during(t.fit, t, loader, { epochs = 2 }))
    end
    local few, many = run(6), run(16)
    return (many.waits - few.waits) / 10, (many.downloads - few.downloads) / 10,
      (many.idle - few.idle) / 10
  end

  for name, opts in pairs {
    plain = function() return {} end,
    clipped = function() return { clip = 1 } end,
    ['as a plan'] = function() return { clip = 1, compile = true } end,
    ['in bf16'] = function() return { autocast = 'bf16', compile = true } end,
    ['by halves'] = function() return { accumulate = 2, compile = true, clip = 1 } end,
    scaled = function()
      return { autocast = 'f16', scaler = optim.GradScaler { scale = 64 }, clip = 1,
        compile = true }
    end,
  } do
    it('waits in the trainer for the loss of the batch before, and no more: ' .. name, function()
      for _, loading in ipairs { 'cpu', GPU } do
        local waits, downloads, idle = each_batch(opts, loading)
        -- which leaves the device with the batch that was asked for meanwhile
        assert.same({ 1, 1, 0 }, { waits, downloads, idle }, loading)
      end
    end)
  end
end)
