-- SPDX-License-Identifier: MIT
-- Running statistics: the trainer, and in loops by hand Stability and Guard, put back what a batch
-- made nan.
local ridge = require 'ridge'
local nn, optim = ridge.nn, ridge.optim

local NAN, INF = 0 / 0, math.huge

it("a report tells a step's mean time, then the least and the most", function()
  local text = require('ridge.train.log').report({ total_steps = 4, total_time = 10,
    average_step_time = 2.5, min_step_time = 1.25, max_step_time = 5, memory_mb = 3,
    peak_memory_mb = 7 }, { epoch = 2, config = { batch = 8, accumulate = 1 } })
  assert.are.equal('4 steps in 2 epochs, 10.0 s: 2.5000 s a step [1.2500 .. 5.0000]\n'
    .. 'memory 3.0 MB, at most 7.0 MB\n'
    .. ('%-20s 1\n'):format 'accumulate' .. ('%-20s 8'):format 'batch', text)
end)

describe('a batch that is not finite', function()
  it('leaves no trace in running statistics: loops by hand, with Stability or Guard', function()
    for _, bad in ipairs { NAN, INF } do
      for _, way in ipairs { 'stability', 'loss', 'guard', 'list', 'loaded', 'moved' } do
        local norm = nn.BatchNorm(3)
        local net = nn.Sequential(norm, nn.Linear(3, 2, { seed = 1 })):train()
        local o = optim.Adam(way == 'list' and net:parameters() or net, { lr = 0.1 })
        local guard = optim.Guard { kind = 'skip' }
        local watch = way ~= 'guard' and ridge.Stability(o)
        if way == 'moved' then net:to 'f64' end
        local x = ridge.randn({ 8, 3 }, { generator = ridge.generator(3) }):to(net:parameters()[1]
          .tensor.dtype)
        local function batch(what)
          o:zero_grad()
          local loss = net(what):square():mean()
          loss:backward()
          if not watch then return guard:apply(o).step and o:step() end
          watch:step(way ~= 'stability' and loss or nil)
        end
        -- the first one at once, where that is promised
        local spoiled = x:clone()
        spoiled[{ 1, 2 }] = bad
        if watch then batch(spoiled) end
        assert.same({ 0, 0, 0 }, { (norm.running_mean * 0):tolist()[1],
          (norm.running_mean * 0):tolist()[2], (norm.running_var * 0):tolist()[2] }, way)
        batch(x)
        if way == 'loaded' then
          norm.running_mean:copy_(ridge.tensor { 5, 6, 7 })
          watch:load_state(watch:state())
        end
        local mean, var = norm.running_mean:tolist(), norm.running_var:tolist()
        batch(spoiled)
        assert.are.equal(mean[2], norm.running_mean:tolist()[2], way)
        assert.are.equal(var[2], norm.running_var:tolist()[2], way)
        assert.are_not.equal(mean[1], norm.running_mean:tolist()[1], way)
      end
    end
  end)

  local function trained(opts)
    local x = ridge.randn({ 16, 4 }, { generator = ridge.generator(3) })
    local y = x:narrow(2, 1, 1):gt(0):reshape(16):to 'i64'
    local bad = x:clone()
    bad:narrow(1, 5, 1):fill_(opts.bad)
    local net = nn.Sequential(nn.Linear(4, 6, { seed = 1 }), nn.BatchNorm(6),
      nn.Linear(6, 2, { seed = 1 }))
    opts.bad, opts.optimizer, opts.say = nil, optim.SGD(net, { lr = 0.1 }), function() end
    if opts.scaler then opts.scaler = optim.GradScaler() end
    local trainer = ridge.Trainer(net, opts)
    trainer:fit(ridge.data.Loader({ bad, y }, { batch = 4 }), { epochs = 4,
      validate = ridge.data.Loader({ x, y }, { batch = 4 }) })
    return trainer, net
  end

  it('leaves no trace in running statistics: validation goes on', function()
    for _, bad in ipairs { NAN, INF } do
      for _, opts in ipairs { { stability = { guard = { kind = 'skip' } } }, { scaler = true },
          { stability = { guard = { kind = 'restore' } }, accumulate = 2 },
          { stability = {}, compile = true } } do
        opts.bad, opts.patience = bad, 1
        local trainer, net = trained(opts)
        for _, name in ipairs { 'running_mean', 'running_var' } do
          for _, value in ipairs(net.children[2].module[name]:tolist()) do
            assert.is_true(value == value and math.abs(value) < INF, name)
            assert.are_not.equal(name == 'running_var' and 1 or 0, value) -- the others count
          end
        end
        assert.is_true(trainer.best < INF)
        assert.is_true(#trainer.history > 1)
      end
    end
  end)

  it('leaves the running statistics of the batch before, not those of the beginning', function()
    local norm = nn.BatchNorm(3)
    local running = require 'ridge.optim.running'(nn.Sequential(norm):parameters())
    norm.running_mean:copy_(ridge.tensor { 5, 6, 7 })
    running:settle()
    norm.running_mean:copy_(ridge.tensor { NAN, 8, INF })
    running:settle()
    assert.same({ 5, 8, 7 }, norm.running_mean:tolist())
  end)

  it('is looked for once a step, at all statistics together', function()
    local Running, times = require 'ridge.optim.running', 0
    local settle = Running.settle
    function Running.settle(self)
      times = times + 1
      return settle(self)
    end
    local ok, err = pcall(function()
      for _, opts in ipairs { {}, { stability = {} }, { scaler = true },
          { stability = { guard = { kind = 'restore' } }, accumulate = 2 } } do
        opts.bad, times = 1, 0
        local trainer = trained(opts)
        assert.are.equal(#trainer.curve, times)
      end
    end)
    Running.settle = settle
    assert(ok, err)
    local list = {}
    for i = 1, 9 do list[i] = nn.BatchNorm(3) end
    list[9]:to 'f64'
    list[9].running_var:fill_(1e300) -- finite, and has no norm in f64
    local running = Running(nn.Sequential(unpack(list, 1, 8)):parameters())
    local calls = 0
    for _, op in ipairs(ridge.profile(running.settle, running).operations) do
      calls = calls + op.calls
    end
    assert.are.equal(16 + 1, calls) -- copies and one norm
    running = Running(nn.Sequential(unpack(list)):parameters())
    list[9].running_mean:fill_(2)
    running:settle()
    assert.same({ 1e300, 1e300, 1e300 }, list[9].running_var:tolist())
    assert.same({ 2, 2, 2 }, list[9].running_mean:tolist())
  end)
end)
