-- SPDX-License-Identifier: MIT
-- Advice on what a function or a recipe has used: loops of one's own, trainers, nothing at all;
-- what raises, and the command as typed.

local ridge = require 'ridge'
local program = dofile 'tests/lua/repl/program.lua'

local QUICK = { seconds = 1, roof = 'none' }

local function data()
  return ridge.randn(64, 8), ridge.randint(0, 2, 64)
end

-- A loop of one's own: so many epochs, the rate by epoch.
local function loop(net, loader, optimizer, epochs, rate)
  return function()
    for epoch = 1, epochs do
      if rate then optimizer:lr(rate(epoch)) end
      for x, y in loader:each() do
        optimizer:zero_grad()
        ridge.nn.cross_entropy(net(x), y):backward()
        optimizer:step()
      end
    end
  end
end

describe('advice on a function', function()
  it('knows the net, the loss, the optimizer, the loader of its loop', function()
    local net = ridge.nn.Sequential(ridge.nn.Linear(8, 16), ridge.nn.ReLU(), ridge.nn.Linear(16, 2))
    local x, y = data()
    local optimizer = ridge.optim.SGD(net, { lr = 1e-3 })
    local loader = ridge.data.Loader({ x, y }, { batch = 16 })
    local a = ridge.advise(loop(net, loader, optimizer, 12), QUICK)
    assert.equal('nn.Sequential', a.net)
    assert.equal(16, a.rows)
    assert.matches('48 losses of the run at a rate of 0.001', a.by_name.divergence.measured)
    assert.matches('noise scale', a.by_name.noise.measured)
    assert.matches('; loss %S+ beside', a.by_name.mixed_precision.measured)
    assert.matches('of data in memory', a.by_name.loading_memory.measured)
    assert.matches('optim.SGD takes', a.by_name.optimizer.measured)
    assert.is_true(a.profile.ns > 0)
    assert.is_not.equal('unknown', a.by_name.schedule.state)
    assert.is_nil(a.by_name.schedule.measured:find 'changed')
  end)

  it('knows which of several loaders the run is fed by: that of most batches', function()
    local x, y = data()
    local net = ridge.nn.Linear(8, 2)
    local one = ridge.data.Loader({ ridge.randn(64, 512), y }, { batch = 64 })
    local fed = ridge.data.Loader({ x, y }, { batch = 8 })
    local other = ridge.data.Loader({ ridge.randn(64, 512), y }, { batch = 32 })
    local s = require('ridge.advise.subject').of_run(function()
      one:each()()
      loop(net, fed, ridge.optim.SGD(net, { lr = 1e-3 }), 1)()
      other:each()()
    end, { lines = false })
    assert.equal(fed, s.loader)
  end)

  it('does not take the loss of another net for that of the largest', function()
    local large, little, x, y = ridge.nn.Linear(8, 64), ridge.nn.Linear(8, 2), data()
    local function ran(n)
      return require('ridge.advise.subject').of_run(function()
        large(x):sum():backward()
        ridge.nn.cross_entropy(little(x:narrow(1, 1, n)), y:narrow(1, 1, n)):backward()
      end, { lines = false })
    end
    local s = ran(16)
    assert.equal(large, s.net)
    assert.is_nil(s.loss)
    assert.equal(1, s.others)
  end)

  it('knows a schedule by its rates', function()
    local net = ridge.nn.Linear(8, 2)
    local x, y = data()
    local optimizer = ridge.optim.SGD(net, { lr = 1e-2 })
    local run = loop(net, ridge.data.Loader({ x, y }, { batch = 32 }), optimizer, 3,
      function(epoch) return 0.1 / epoch end)
    local found = ridge.advise(run, QUICK).by_name.schedule
    assert.equal('no', found.state)
    assert.matches('the rate changed', found.measured)
  end)

  it('that uses nothing says what could not be told, and why', function()
    local x = ridge.randn(64, 64)
    local a = ridge.advise(function() for _ = 1, 5 do x:matmul(x) end end, QUICK)
    assert.equal('unknown', a.by_name.compile.state)
    assert.matches('no module was called in training mode', a.by_name.compile.why)
    assert.matches('no module was called', a.by_name.noise.why)
    assert.truthy(a.by_name.copies.measured)
    assert.equal(60, #a.lines)
    assert.is_nil(a.net)
  end)

  it('does not advise on calls where nothing was called', function()
    local a = ridge.advise(function() end, QUICK)
    assert.equal('no', a.by_name.bottlenecks.state)
    assert.matches('nothing of ridge in it', a.by_name.bottlenecks.why)
  end)

  it('without a loss that is known does not guess at its noise', function()
    local net = ridge.nn.Linear(8, 2)
    local a = ridge.advise(net, ridge.randn(16, 8), QUICK)
    assert.equal('unknown', a.by_name.noise.state)
    assert.matches('the loss is not known', a.by_name.noise.why)
    assert.matches('sum of the output', a.by_name.mixed_precision.measured)
  end)

  it('with a part that is quantized tells what can be told, and that it is', function()
    local nn = ridge.nn
    local trunk = ridge.quant.dynamic(nn.Sequential(nn.Linear(64, 64, { seed = 1 })):eval(),
      { rows = false })
    local Head = nn.class 'Head'
    function Head:init()
      self.trunk = self:child('trunk', trunk)
      self.head = self:child('head', nn.Linear(64, 4, { seed = 2 }))
    end
    function Head:forward(x) return self.head(self.trunk(x):detach()) end
    local net, x, y = Head(), ridge.randn(16, 64), ridge.zeros(16):to 'i64'
    local a = ridge.advise(function()
      for _ = 1, 5 do nn.cross_entropy(net(x), y):backward() end
    end, { seconds = 1, roof = 'none' })
    assert.equal('unknown', a.by_name.compile.state)
    assert.matches('a quantized net is not trained', a.by_name.compile.why)
    assert.equal('unknown', a.by_name.quantized_accuracy.state) -- it may cost some
    assert.matches('^1 of %d parameters are of 8 bits', a.by_name.quantized_accuracy.measured)
    assert.not_equal('unknown', a.by_name.bottlenecks.state)
    -- a net alone has nothing but trials to be told from
    local ok, err = pcall(ridge.advise, net, x, { target = y, seconds = 1 })
    assert.is_false(ok)
    assert.matches('a quantized net is not trained', tostring(err))
  end)

  it('passes on what it raises', function()
    local ok, err = pcall(ridge.advise, function() error 'on purpose' end, QUICK)
    assert.is_false(ok)
    assert.matches('on purpose', tostring(err))
    assert.is_nil(require('ridge.ranges').met)
    assert.is_nil(require('ridge.ranges').heard)
  end)
end)

describe('ridge advise', function()
  local folder

  setup(function() folder = program.folder() end)
  teardown(function() program.remove(folder) end)

  local function recipe(name, text)
    local file = assert(io.open(('%s/%s.lua'):format(folder, name), 'w'))
    file:write(text)
    file:close()
    return ('%s/%s.lua'):format(folder, name)
  end

  it('tells of a recipe with a trainer, as typed', function()
    local status, out, err = program.run { 'advise', 'train_mlp', '--seconds', '1', '--roof',
      'none', '--', '--smoke', '--epochs', '2' }
    assert.equal(0, status, err)
    assert.matches('\nepoch 2/2 ', out)
    assert.matches('\nwhat ran of nn.Sequential on cpu, 64 rows: of 60 lines %d+ apply', out)
    assert.matches('schedule of the rate: there is one\n    measured: a schedule steps it', out)
    assert.matches('10 losses of the run', out)
  end)

  it('has a row for each line', function()
    local path = recipe('small', [[
local ridge = require 'ridge'
local net = ridge.nn.Linear(4, 2)
local optimizer = ridge.optim.SGD(net, { lr = 0.1 })
for _ = 1, 4 do
  ridge.nn.mse_loss(net(ridge.ones(8, 4)), ridge.zeros(8, 2)):backward()
  optimizer:step()
end
os.exit(3)
print 'after the end'
]])
    local status, out = program.run { 'advise', path, '--lines', '--seconds', '0.5' }
    assert.equal(3, status)
    assert.is_nil(out:find 'after the end')
    local rows = select(2, out:gsub('\n0%d%d %S+', ''))
    assert.equal(60, rows)
  end)

  it('tells of what was met before a recipe raised', function()
    local path = recipe('raises', [[
local ridge = require 'ridge'
local net = ridge.nn.Linear(4, 2)
net(ridge.ones(8, 4)):sum():backward()
error 'on purpose'
]])
    local status, out, err = program.run { 'advise', path, '--seconds', '0.5' }
    assert.equal(1, status)
    assert.matches('on purpose', err)
    assert.matches('what ran of nn.Linear on cpu, 8 rows', out)
  end)

  it('says what is missing', function()
    local status, _, err = program.run { 'advise' }
    assert.equal(1, status)
    assert.matches('the name of a recipe is missing', err)
    status, _, err = program.run { 'advise', 'train_mpl' }
    assert.equal(1, status)
    assert.matches("did you mean 'train_mlp'", err)
    status = program.run { 'advise', '--help' }
    assert.equal(0, status)
  end)
end)
